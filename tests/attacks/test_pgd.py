from copy import deepcopy

import numpy as np
import pytest
import torch

from fairmargin.attacks.margin_pgd import MarginPGD
from fairmargin.attacks.pgd import PGD
from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.errors import InputError
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier
from tests.attacks.victims import confident, half_space, run
from tests.distances.confirmation import Formula
from tests.oracles import linear_distance, random_problem
from tests.peers import peer
from tests.perturbation.networks import cnn, mlp, test_digits

NORMS = [Norm.LINF, Norm.L2]
both_norms = pytest.mark.parametrize("norm", NORMS)


@pytest.mark.parametrize("kind", [PGD, MarginPGD])
@both_norms
def test_fools_a_linear_model_slightly_beyond_the_distance_and_not_before(norm, kind):
    model, x, y, distances = half_space()
    beyond = run(kind(norm), model, x, y, distances(norm) * 1.001)
    short = run(kind(norm), model, x, y, distances(norm) * (1 - 1e-9))
    assert (model.predict(beyond) != y).all()
    assert (model.predict(short) == y).all()


@both_norms
def test_finds_the_boundary_in_a_box_where_features_reach_their_limits(norm):
    model, x = random_problem(np.random.default_rng(5), n=40, d=6, classes=2, domain=Domain(0, 1))
    y = model.predict(x)
    exact = np.array([linear_distance(model, row, label, norm) for row, label in zip(x, y, strict=True)])
    reachable = np.isfinite(exact)
    assert reachable.sum() >= 20
    radius = np.where(reachable, exact * 1.02, 1.0)
    found = run(PGD(norm, steps=40, step=0.1), model, x, y, radius)
    np.testing.assert_array_equal(model.predict(found) != y, reachable)


def test_an_unsuccessful_attack_returns_the_input_with_the_largest_loss():
    model, x, y, distances = half_space()
    radius = distances(Norm.L2) * 0.5
    found = run(PGD(Norm.L2), model, x, y, radius)
    assert (model.predict(found) == y).all()
    lead = np.abs(np.diff(model.scores(found), axis=1)[:, 0])
    before = np.abs(np.diff(model.scores(x), axis=1)[:, 0])
    np.testing.assert_allclose(lead, before / 2, rtol=1e-3)  # half of the distance in the best direction


def test_does_not_return_a_point_with_a_smaller_loss_than_the_sample():
    def scores(x):  # every perturbation increases the score of the sample's class
        hill = 1 + 10 * ((x - 0.5) ** 2).sum(dim=1)
        return torch.stack([hill, torch.zeros_like(hill)], dim=1)

    model = as_classifier(Formula(scores), classes=range(2), domain=Domain(0, 1))
    x = np.full((1, 3), 0.5, np.float32)
    found = run(PGD(step=2.0, steps=1), model, x, np.zeros(1, np.int64), 0.2)
    np.testing.assert_array_equal(found, x)


def test_a_misclassified_input_on_the_path_counts_even_if_the_last_point_is_correct():
    def scores(x):  # the other class has a narrow strip only
        across = 1 - ((x[:, 0] - 0.3) / 0.04).abs()
        return torch.stack([torch.zeros_like(across), across], dim=1)

    model = as_classifier(Formula(scores), classes=range(2), domain=Domain(0, 1))
    x = np.array([[0.1, 0.5]], np.float32)
    attack = PGD(steps=5, step=0.2, random_start=False)  # visits 0.1, 0.2, 0.3 (misclassified), and then alternates
    found = run(attack, model, x, np.zeros(1, np.int64), 0.5)
    assert model.predict(found) == [1]


@pytest.mark.parametrize("kind", [PGD, MarginPGD])
def test_more_restarts_find_all_that_fewer_found_and_more(kind):
    def scores(x):  # many local maxima: the result depends on the start
        waves = torch.cos(14 * x).sum(dim=1) + 0.35
        return torch.stack([waves, torch.zeros_like(waves)], dim=1)

    model = as_classifier(Formula(scores), classes=range(2), domain=Domain(0, 1))
    x = np.random.default_rng(1).uniform(size=(150, 2)).astype(np.float32)
    x = x[model.predict(x) == 0]
    y, attack = np.zeros(len(x), np.int64), kind(steps=4, step=0.15)
    fooled = []
    for restarts in (1, 2, 8):
        found = run(kind(steps=4, step=0.15, restarts=restarts), model, x, y, 0.12)
        fooled.append(model.predict(found) != y)
    assert not (fooled[0] & ~fooled[1]).any()
    assert not (fooled[1] & ~fooled[2]).any()
    assert fooled[2].sum() > fooled[0].sum() > 0
    assert attack.restarts == 1


@both_norms
def test_fools_as_many_as_torchattacks_pgd(norm):
    x, y = test_digits(200)
    radius = {Norm.LINF: 0.06, Norm.L2: 0.4}[norm]
    peers, model = peer("torchattacks"), as_classifier(cnn())
    with torch.random.fork_rng():
        torch.manual_seed(0)
        kind = peers.PGD if norm is Norm.LINF else peers.PGDL2
        theirs = kind(deepcopy(cnn()), eps=radius, alpha=radius / 4, steps=20)(torch.tensor(x), torch.tensor(y)).numpy()
    ours = run(PGD(norm), model, x, y, radius)
    wrong = [(model.predict(found) != y).sum() for found in (ours, theirs)]
    assert 0.2 * len(x) < wrong[1] < 0.95 * len(x)
    assert wrong[1] - 1 <= wrong[0] <= wrong[1] + 6  # all inputs on a path count


@both_norms
def test_fools_as_many_as_foolbox_pgd(norm):
    x, y = test_digits(120)
    radius = {Norm.LINF: 0.06, Norm.L2: 0.4}[norm]
    foolbox, model = peer("foolbox"), as_classifier(cnn())
    kind = foolbox.attacks.LinfPGD if norm is Norm.LINF else foolbox.attacks.L2PGD
    with torch.random.fork_rng():
        torch.manual_seed(0)
        subject = foolbox.PyTorchModel(deepcopy(cnn()), bounds=(0, 1), device="cpu")
        attack = kind(rel_stepsize=0.25, steps=20)
        _, _, success = attack(subject, torch.tensor(x), torch.tensor(y), epsilons=radius)
    ours = model.predict(run(PGD(norm), model, x, y, radius)) != y
    theirs = int(success.sum())
    assert theirs - 1 <= ours.sum() <= theirs + 5


def test_a_very_confident_model_is_fooled_too():
    model, x, y, distances = confident()
    assert (model.predict(run(PGD(), model, x, y, distances * 1.01)) != y).all()
    assert (model.predict(run(MarginPGD(), model, x, y, distances * 1.01)) != y).all()


@pytest.mark.parametrize("loss", ["cross_entropy", "margin", "clipped_margin"])
def test_every_loss_finds_misclassified_inputs(loss):
    x, y = test_digits(40)
    model = as_classifier(mlp())
    assert (model.predict(run(PGD(loss=loss), model, x, y, 0.15)) != y).mean() > 0.9


def test_an_easy_sample_takes_few_passes():
    calls = []

    def scores(x):
        calls.append(len(x))
        return torch.stack([x[:, 0], 0.5 - x[:, 0]], dim=1)

    model = as_classifier(Formula(scores), classes=range(2), domain=Domain(0, 1))
    y = np.zeros(1, np.int64)
    counts = []
    for value in (0.3, 0.9):  # near the boundary at .25, and too far from it
        calls.clear()
        run(PGD(steps=100), model, np.array([[value, 0.5]], np.float32), y, 0.2)
        counts.append(len(calls))
    assert counts[0] <= 10
    assert 100 <= counts[1] <= 110


def test_samples_that_are_all_misclassified_before_the_attack_are_accepted():
    model = LinearClassifier([[1.0], [0.0]], [0.0, 0.0], domain=Domain(0, 1))
    x = np.array([[0.5], [0.6]])
    np.testing.assert_array_equal(run(PGD(), model, x, np.array([1, 1]), 0.1), x)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: PGD(steps=0), "`steps` of PGD must be at least 1"),
        (lambda: PGD(steps=2.5), "`steps` of PGD must be a whole number"),
        (lambda: PGD(restarts=0), "`restarts` of PGD must be at least 1"),
        (lambda: PGD(step=0.0), "`step` of PGD must be a positive fraction of the radius"),
        (lambda: PGD(step=float("nan")), "`step` of PGD must be a positive fraction"),
        (lambda: PGD(step="0.1"), "`step` of PGD must be a positive fraction"),
        (lambda: PGD(restarts=2, random_start=False), "without a random start all restarts are identical"),
        (
            lambda: PGD(loss="hinge"),
            "`loss` of PGD must be one of cross_entropy, margin, clipped_margin; given 'hinge'",
        ),
        (lambda: MarginPGD(confidence=-1.0), "`confidence` of MarginPGD must be a positive number"),
        (lambda: MarginPGD(restarts=3, random_start=False), "`restarts` of MarginPGD is 3"),
        (lambda: PGD("l1"), "`PGD` does not support the norm L1; it supports l2, linf"),
    ],
)
def test_invalid_settings_are_refused(make, said):
    with pytest.raises(InputError, match=said):
        make()


def test_defaults_are_the_published_settings():
    assert (PGD().steps, PGD().step, PGD().restarts, PGD().random_start, PGD().loss) == (
        20,
        0.25,
        1,
        True,
        "cross_entropy",
    )
    assert (MarginPGD().steps, MarginPGD().step, MarginPGD().confidence) == (30, 0.25, 50.0)
