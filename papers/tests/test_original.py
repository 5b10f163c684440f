"""The scale "paper": it starts only if everything that it names is there, and says what it has used."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

from fairmargin.core.progress import silent
from fairmargin.data.card import Entry
from fairmargin.data.catalog import DATASETS
from fairmargin.errors import InputError, MissingDataError, ModelError
from fairmargin_papers import catalog
from fairmargin_papers.catalog import PAPERS
from fairmargin_papers.ma.networks import remark_on
from fairmargin_papers.ma.sweep import main_sweep
from fairmargin_papers.nanda import networks as nanda_networks
from fairmargin_papers.nanda.settings import effort, settings
from fairmargin_papers.shared import original
from fairmargin_papers.shared.claims import Claim
from fairmargin_papers.shared.original import Original, check_available
from fairmargin_papers.shared.paper import Assignment, Findings, Paper, Part
from fairmargin_papers.shared.reproduce import reproduce
from fairmargin_papers.shared.trained import run_grid, study_sections
from tests.stories.examples import fairmargin, json_of, refused, succeeded

TORCHVISION = ("alexnet", "resnet50_imagenet", "vgg19", "densenet121", "squeezenet1_0")


def study(dataset, *networks, pretrained=(), **data):
    models = {name: {"model": f"arch:{name}"} for name in networks}
    return Original({"data": {dataset: {"data": dataset, **data}}, "model": models}, pretrained)


@dataclass
class Samples:
    count: int
    x: np.ndarray

    def __len__(self):
        return self.count


@pytest.fixture
def here(monkeypatch):
    """Datasets with so many samples of that shape, in place of real ones; and weights of these networks."""

    def put(data, weights=()):
        def load(name, *, root, size, progress):
            if name not in data:
                raise MissingDataError(f"The files of {name} are not here.")
            count, (channels, side, _) = data[name]
            return Samples(count, np.zeros((1, channels, size or side, size or side)))

        def imagenet_file(name, *, fetch):
            asked.append((name, fetch))
            if name not in weights:
                raise ModelError(f"The file of `{name}` is not in the hub folder. Put it there.")

        asked = []
        monkeypatch.setattr(original, "load", load)
        monkeypatch.setattr(original, "imagenet_file", imagenet_file)
        return asked

    return put


def test_it_starts_if_everything_is_there(here):
    asked = here({"cifar10": (60_000, (3, 32, 32))}, weights=("resnet18",))
    check_available("p", [study("cifar10", "deep_cnn", pretrained=("resnet18",))], None)
    assert asked == [("resnet18", True)]


@pytest.mark.parametrize(
    ("data", "studies", "words"),
    [
        ({}, [study("cifar10", "deep_cnn")], ["cifar10 (no files)"]),
        (
            {"cifar10": (25_000, (3, 32, 32))},
            [study("cifar10", "deep_cnn")],
            ["cifar10 with all of its 60,000 samples (here: 25,000)"],
        ),
        (
            {"utkface": (23_705, (3, 64, 64))},
            [study("utkface", "utk_cnn", size=200)],
            ["utkface in pictures of 200 pixels (here: 64)"],
        ),
        (
            {"adience": (1_585, (3, 128, 128))},
            [study("adience", "adience_cnn", size=224)],
            ["adience with all of its 17,702 samples (here: 1,585)"],
        ),
        (
            {"fashion-mnist": (70_000, (1, 28, 28)), "mnist": (70_000, (1, 28, 28))},
            [study("fashion-mnist", "vgg13", "cnn6"), study("mnist", "vgg13")],
            ["vgg13 on fashion-mnist, mnist (it needs images of at least 32×32 pixels; given 28×28"],
        ),
        (
            {"cifar10": (60_000, (3, 32, 32))},
            [study("cifar10", "deep_cnn", pretrained=("resnet18", "resnet50"))],
            ["the weights learnt on ImageNet of resnet18, resnet50 (The file of `resnet18` is not in the hub folder)"],
        ),
        (
            {"cifar10": (25_000, (3, 32, 32))},
            [study("cifar10", "deep_cnn", pretrained=("resnet18",)), study("mnist", "lenet5")],
            ["cifar10 with all", "mnist (no files)", "ImageNet of resnet18"],
        ),
    ],
)
def test_what_is_missing_is_listed_in_one_sentence_with_a_way_on(here, data, studies, words):
    asked = here(data)
    with pytest.raises(InputError) as refusal:
        check_available("nanda", studies, None)
    sentence = str(refusal.value)
    assert sentence.startswith("`--scale paper` of nanda cannot start, because these are missing: ")
    assert all(word in sentence for word in words), sentence
    assert "--scale laptop" in sentence
    complete = len(data) == len(studies) and not any("samples" in word or "pixels" in word for word in words)
    assert all(fetch == complete for _, fetch in asked)  # nothing large is fetched for a run that cannot start


@pytest.mark.parametrize("name", PAPERS)
def test_the_studies_of_a_paper_name_data_whose_complete_size_is_known(name):
    for part in PAPERS[name].parts:
        for each in part.originals():
            assert part.differences
            for data in each.sections["data"].values():
                card = DATASETS[data["data"]].card
                assert card.samples > 10_000
                assert len(card.shape) == 3


def test_all_networks_of_the_printed_tables_are_named():
    named = {
        data["data"]: set(each.pretrained)
        for each in nanda_networks.PART.originals()
        for data in each.sections["data"].values()
        if each.pretrained
    }
    assert set(named) == {"cifar10", "cifar100", "cifar100-super", "utkface", "adience"}
    assert all(networks == set(TORCHVISION) for networks in named.values())
    adverm = [each.pretrained for part in PAPERS["nanda2020"].parts for each in part.originals()]
    assert adverm == [(), ("resnet18_imagenet",), ("vgg19_bn",)] * 2  # the networks of their own are not pre-trained


@pytest.mark.parametrize("name", [name for name in PAPERS if name != "toy"])
def test_every_network_that_the_paper_scale_names_can_be_built_for_its_data(name):
    studies = [each for part in PAPERS[name].parts for each in part.originals()]
    assert list(original._named(studies))
    assert original._missing_networks(studies) == []


@pytest.mark.parametrize("name", [name for name in PAPERS if name != "toy"])
def test_without_data_the_command_refuses_and_writes_nothing(tmp_path, name):
    (tmp_path / "data").mkdir()
    asked = ("--scale", "paper", "--root", tmp_path / "data", "--out", tmp_path / "out")
    sentence = refused(fairmargin("reproduce", name, *asked))
    assert "cifar10 (no files)" in sentence
    assert not (tmp_path / "out").exists()


def test_a_pretrained_network_that_is_lost_meanwhile_stops_the_run(tmp_path, monkeypatch):
    def lost(*_):
        raise ModelError("no weights")

    test = SimpleNamespace(x=np.zeros((1, 3, 32, 32)))
    linear = SimpleNamespace(training=lambda: SimpleNamespace(outputs=10), dataset=lambda: test)
    monkeypatch.setattr(nanda_networks, "start_from_imagenet", lost)
    given, cifar = Assignment("paper", tmp_path, {}, silent), settings("paper")[0]
    with pytest.raises(ModelError, match="no weights"):
        nanda_networks._starts(given, cifar, {}, linear)
    paths, reason = nanda_networks._starts(replace(given, scale="laptop"), cifar, {}, linear)
    assert (paths, reason) == ({}, "there are no initial weights: no weights")


SECTIONS = study_sections(
    data={"data": "digits", "per_group": 20, "audit_per_group": 6},
    groups=["class"],
    models={"logistic": {"model": "arch:logistic"}},
    training={"epochs": 2, "rate": 0.1, "batch": 32},
    methods={"erm": {}},
    audits={"distances": {"estimator": "exact_linear"}},
    attacks={"fgsm": {"radius": ["4/255"]}},
)


def tiny(monkeypatch):
    """A paper of one part, which runs two studies that differ in their seeds."""

    def run(assignment):
        for seed in (0, 1):
            place = replace(assignment, folder=assignment.folder / str(seed))
            run_grid(place, {**SECTIONS, "seeds": [seed]})
        return Findings((claim.found("one", "holds"),), notes=("A note.",))

    claim = Claim("tiny", 1, "It runs.", "", "closely")
    part = Part("networks", "networks", frozenset({1}), run, differences=("Two seeds.",))
    made = Paper("tiny", "Tiny", "Nobody.", (claim,), (part,), {})
    monkeypatch.setattr(catalog, "PAPERS", {**PAPERS, "tiny": made})
    card = replace(DATASETS["digits"].card, samples=1_797)
    monkeypatch.setitem(DATASETS.entries, "digits", Entry(card, DATASETS["digits"].load))
    return made


USED = (
    "Used: data: digits, 200 training and 60 test samples of shape 64, a subset: 260 of 1,797; networks: logistic; "
    "methods: erm; training: 2 epochs, rate 0.1, optimizer sgd, momentum 0.9, weight decay 0, batch 32, schedule "
    "constant, augmentation none; distances by exact_linear; attack fgsm at 4/255; seeds 0, 1."
)


def test_page_and_console_say_what_was_used_and_what_differs_from_print(tmp_path, monkeypatch):
    tiny(monkeypatch)
    shown = succeeded(fairmargin("reproduce", "tiny", "--scale", "paper", "--out", tmp_path, "--engine", "serial"))
    page = (tmp_path / "tiny.md").read_text(encoding="utf-8")
    for text in (page, shown.stdout):
        assert USED in text
        assert "Different from print: Two seeds." in text
    again = fairmargin("reproduce", "tiny", "--scale", "paper", "--out", tmp_path, "--engine", "serial", "--json")
    assert json_of(again)["used"] == [USED, "Different from print: Two seeds."]


def test_smaller_scales_keep_their_own_notes(tmp_path, monkeypatch):
    done = reproduce(tiny(monkeypatch), "laptop", tmp_path)
    assert done.used == ()
    assert "Used:" not in (tmp_path / "tiny.md").read_text(encoding="utf-8")


def test_no_row_says_that_its_settings_are_those_of_the_paper(tmp_path):
    given = Assignment("paper", tmp_path, {}, silent)
    said = remark_on(given, main_sweep(given), "resnet18")
    assert said == "resnet18 on CIFAR-10, 4 seeds; settings as listed under “What was run”."
    measured = SimpleNamespace(title="CIFAR-10", networks=("Deep cnn", "Alexnet, pre-trained"))
    assert (
        nanda_networks._what(given, effort("paper"), [measured])
        == "Networks: CIFAR-10: Deep cnn, Alexnet, pre-trained."
    )
