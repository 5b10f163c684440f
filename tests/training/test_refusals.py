"""What a training refuses, in a sentence and before its first step."""

import numpy as np
import pytest
import torch
from torch import nn

from fairmargin.core.domain import Domain
from fairmargin.core.partition import Partition
from fairmargin.data.dataset import Dataset
from fairmargin.errors import InputError, ModelError
from fairmargin.study.schedule import Schedule
from fairmargin.training.catalog import METHODS, parse_method
from fairmargin.training.methods.plain import ERM
from fairmargin.training.parts.aggregates import Mean
from fairmargin.training.parts.batch import MOVED
from fairmargin.training.parts.losses import CrossEntropy
from fairmargin.training.plan import TrainingPlan
from fairmargin.training.recipe import Part, Recipe, Term
from fairmargin.training.train import train
from tests.training.problems import blobs, tiny


def net(classes=3, inputs=3):
    return tiny(classes=classes, inputs=inputs, dtype=torch.float32)


def refused(kind, words, model=None, data=None, method=None, epochs=2, **others):
    """The training raises that error with those words before it tells of any step."""
    steps = []
    with pytest.raises(kind) as error:
        train(
            net() if model is None else model,
            blobs() if data is None else data,
            ERM() if method is None else method,
            epochs=epochs,
            progress=lambda *what: steps.append(what),
            **others,
        )
    assert words in str(error.value)
    assert steps == []


@pytest.mark.parametrize("epochs", [0, -1, 1.5, True, "3", None])
def test_numbers_of_epochs_that_are_none(epochs):
    refused(InputError, "`epochs` must be a whole number, 1 or more", epochs=epochs)


def test_what_is_no_network_no_data_and_no_method():
    refused(ModelError, "`model` must be a torch module; given a str", model="resnet")
    refused(InputError, "`dataset` must be a `fm.Dataset`", data=np.zeros((3, 3)))
    refused(InputError, "given the class `ERM`", method=ERM)
    refused(InputError, "`method` must be a training method", method="erm")
    refused(ModelError, "there is nothing to train", model=nn.Flatten())
    refused(ModelError, "there is nothing to train", model=net().requires_grad_(False))


def test_networks_that_do_not_fit_the_data():
    refused(ModelError, "cannot take samples of shape (3,)", model=net(inputs=4))
    refused(InputError, "The data have 3 classes but the network gives 2 scores", model=net(classes=2))
    refused(InputError, "The data have 3 classes but the network gives 1 scores", model=net(classes=1))
    data = blobs()
    named = Dataset(data.x, np.array(["a", "b", "c"])[data.y], domain=data.domain)
    refused(InputError, "The data have 3 classes but the network gives 5 scores", model=net(5), data=named)
    flat = nn.Sequential(nn.Linear(3, 3), nn.Flatten(0))
    refused(ModelError, "must return one score per class, shape (n, classes); it returned (6,)", model=flat)


def test_data_of_one_class():
    data = blobs()
    refused(InputError, "The data have one class only, [1]", data=Dataset(data.x, np.ones(60, dtype=int)))


@pytest.mark.parametrize("where", [3, 59, 1500])
def test_samples_outside_the_domain_wherever_they_are(where):
    data = blobs(1600)
    x = np.array(data.x)
    x[where, 1] = 1.5
    refused(
        InputError, f"sample {where} has 1.5 in feature 1, outside [0, 1]", data=Dataset(x, data.y, domain=data.domain)
    )


def test_numbers_too_large_for_the_network():
    data = blobs(90)
    x = np.array(data.x, dtype=np.float64)
    x[80, 0] = 1e300
    refused(InputError, "too large for the network's torch.float32", data=Dataset(x, data.y))


@pytest.mark.parametrize(
    "spelling",
    ["madry:radius=2", "trades:radius=2", "fat:radius=2", "fat_trades:radius=2", "fair_robust:radius=2",
     "farmur:radius=2", "smooth_adv:radius=2", "adverm:radius=2", "madry:radius=1.8,norm=l2"],
)  # fmt: skip
def test_a_radius_that_is_larger_than_the_box(spelling):
    refused(InputError, "is larger than the box", method=parse_method(spelling))


def test_a_radius_in_bytes_is_asked_about():
    refused(InputError, "did you mean 8/255?", method=parse_method("fat:radius=8"))
    plan = TrainingPlan(watch_radius=8)
    refused(InputError, "did you mean 8/255?", plan=plan, validation=blobs(9, 1))


def test_a_group_that_the_partition_lacks():
    refused(
        InputError,
        "'kind' has no group 'rear'. Did you mean 'rare'?",
        method=parse_method("adverm:group=rear"),
        partition="kind",
    )


def test_partitions_that_do_not_fit():
    refused(InputError, "The data have no attribute 'kinds'. Did you mean 'kind'?", partition="kinds")
    refused(InputError, "has 3 samples but the data have 60", partition=Partition.by("kind", ["a", "b", "a"]))


def test_validation_data_that_do_not_fit():
    other = blobs(30, 1)
    without = Dataset(other.x, other.y, domain=other.domain)
    refused(InputError, "Validation data: The data have no attribute 'kind'", partition="kind", validation=without)
    new = Dataset(other.x, other.y, {"kind": ["new"] * 30}, other.domain)
    refused(InputError, "The validation data have a group 'new' of 'kind'", partition="kind", validation=new)
    unknown = Dataset(other.x, other.y + 1, {"kind": other.attributes["kind"]}, other.domain)
    refused(InputError, "Validation data: `y` holds labels that are not among", partition="kind", validation=unknown)
    wide = Dataset(np.zeros((30, 4)), other.y, domain=other.domain)
    refused(InputError, "The validation data have shape (4,), the training data (3,)", validation=wide)
    outside = Dataset(np.asarray(other.x) + 1, other.y, domain=Domain())
    refused(InputError, "Validation data: `x` is outside the domain", validation=outside)
    crossed = blobs().partition("kind") & blobs().partition("class")
    refused(
        InputError, "pass that of the validation data as `validation_partition`", partition=crossed, validation=other
    )
    refused(InputError, "has 60 samples but", partition=crossed, validation=other, validation_partition=crossed)


def test_wishes_about_validation_data_that_are_not_there():
    refused(InputError, "`patience` stops a training by its results on validation data", plan=TrainingPlan(patience=2))
    method = parse_method("farmur:found_on=validation")
    refused(InputError, "looks for vulnerable groups on validation data, but none were given", method=method)


def test_vulnerable_groups_of_which_validation_data_have_none():
    other = blobs(30, 1)
    common = other.take(other.attributes["kind"] == "common")
    method = parse_method("farmur:found_on=validation")
    refused(InputError, "no sample of group 'rare'", method=method, partition="kind", validation=common)


def test_vulnerable_groups_of_a_partition_with_one_group_or_by_an_estimator_that_cannot():
    one = Partition.by("all", ["everyone"] * 60)
    refused(
        InputError, "compares groups, and 'all' has one only: 'everyone'", method=METHODS["farmur"](), partition=one
    )
    refused(ModelError, "works on linear models only", method=METHODS["farmur"](estimator="exact_linear"))


def test_batchnorm_and_a_batch_of_one_sample():
    with pytest.raises(ModelError, match=r"cannot be trained on a batch of 1 .* BatchNorm needs 2 samples or more"):
        train(tiny(normed=True), blobs(), ERM(), epochs=1, plan=TrainingPlan(batch=1))
    train(tiny(normed=True), blobs(3), ERM(), epochs=1, plan=TrainingPlan(batch=2))
    train(tiny(normed=True), blobs(61), ERM(), epochs=1, plan=TrainingPlan(batch=60))


class Returns:
    """A method that returns what it was told to."""

    def __init__(self, returned):
        self.returned = returned

    def recipe(self, epoch, epochs):
        return self.returned


def test_methods_that_are_not_whole():
    refused(InputError, "must return a `Recipe`; it returned None", method=Returns(None))
    with pytest.raises(ModelError, match="uses attacked inputs but the method has no adversary"):
        train(net(), blobs(), Returns(Recipe.of(Term(CrossEntropy(MOVED), Mean()))), epochs=1)
    with pytest.raises(ModelError, match="is for the samples 'vulnerable', but its controller did not find them"):
        train(net(), blobs(), Returns(Recipe((Part((Term(CrossEntropy()),), among="vulnerable"),))), epochs=1)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("rate", 0, "`rate` must be a positive number"),
        ("rate", float("nan"), "`rate` must be a positive number"),
        ("optimizer", "sdg", "`optimizer` must be one of sgd, adam; given 'sdg'."),
        ("momentum", 1, "`momentum` must lie below 1"),
        ("average", 1.5, "`average` must lie below 1"),
        ("batch", 0, "`batch` must be a whole number"),
        ("augmentation", "flop", "`augmentation` must be one of none, flip, crop_flip; given 'flop'."),
        ("watch", "pdg", "Did you mean 'pgd'?"),
        ("watch_radius", "8/0", "`watch_radius` cannot be divided by 0"),
        ("patience", -1, "`patience` must be a whole number, 0 or more"),
        ("keep_every", 2.5, "`keep_every` must be a whole number"),
        ("threads", -1, "`threads` must be 0 or more"),
        ("weight_decay", -1, "`weight_decay` must be a number, 0 or more"),
    ],
)
def test_plans_that_lead_nowhere(field, value, words):
    with pytest.raises(InputError) as error:
        TrainingPlan(**{field: value})
    assert words in str(error.value)


def test_augmentation_of_what_is_no_image():
    with pytest.raises(InputError, match="`augmentation` is for images"):
        train(net(), blobs(), ERM(), epochs=1, plan=TrainingPlan(augmentation="flip"))


@pytest.mark.parametrize(
    "name", ["penalty", "fat:radius=0.1", "fat_trades:radius=0.1", "group_dro", "adverm", "farmur:radius=0.1"]
)
def test_methods_that_compare_groups_where_there_is_one(name):
    data = blobs()
    everyone = Partition.by("all", ["all"] * len(data))
    refused(
        InputError, "compares groups, and 'all' has one only", data=data, method=parse_method(name), partition=everyone
    )


def test_a_plan_that_is_none_and_a_schedule_as_the_command_line_spells_it():
    refused(InputError, "`plan` must be a `fm.TrainingPlan`; given a dict", plan={"rate": 0.1})
    assert TrainingPlan(schedule="steps:0.5,0.75").schedule == Schedule("steps", (0.5, 0.75))
    with pytest.raises(InputError, match="`schedule` must be a text"):
        TrainingPlan(schedule=3)


class Aggregated:
    """Cross-entropy with an aggregate of one's own."""

    def __init__(self, aggregate):
        self.aggregate = aggregate

    def recipe(self, epoch, epochs):
        return Recipe.of(Term(CrossEntropy(), self.aggregate, name="mine"))


@pytest.mark.parametrize(
    ("aggregate", "returned"),
    [
        (lambda losses, state: losses.values, "a tensor of shape (60,)"),
        (lambda losses, state: losses.by_group()[0], "a tensor of shape (3,)"),
        (lambda losses, state: 1.0, "a float"),
        (lambda losses, state: None, "a NoneType"),
    ],
)
def test_an_aggregate_that_does_not_return_one_number(aggregate, returned):
    with pytest.raises(ModelError) as error:
        train(net(), blobs(), Aggregated(aggregate), epochs=1, plan=TrainingPlan(batch=60))
    assert "the aggregate of the term 'mine', must return one number, a tensor of shape (); it returned " in str(
        error.value
    )
    assert f"it returned {returned}. Take a sum or a mean of it." in str(error.value)


def test_a_loss_that_does_not_return_one_number_a_sample():
    def scores(views):
        return views.scores("clean")

    with pytest.raises(ModelError, match=r"must return `Losses`, one number per sample; it returned a tensor of shape"):
        train(net(), blobs(), Returns(Recipe.of(Term(scores))), epochs=1)
