import numpy as np
import pytest
import torch

from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.distances.exact_linear import ExactLinear
from fairmargin.distances.measure import measure
from fairmargin.distances.searches.alma import ALMA
from fairmargin.errors import InputError
from tests.distances.confirmation import Formula, measured_and_confirmed
from tests.distances.peer_distances import assert_as_good, of_inputs
from tests.oracles import random_problem
from tests.peers import peer
from tests.perturbation.networks import cnn, mlp, test_digits


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("domain", [Domain(), Domain(0, 1), Domain(scale=3.0)], ids=["free", "box", "scaled"])
def test_is_close_to_exact_on_a_linear_model(domain, classes):
    model, x = random_problem(np.random.default_rng(8), n=100, d=12, classes=classes, domain=domain)
    y = model.predict(x)
    truth, values = measure(model, x, y, ExactLinear()).values, measure(model, x, y, ALMA()).values
    reached = np.isfinite(truth) & np.isfinite(values)
    assert (values >= truth * (1 - 1e-9)).all()
    assert reached.sum() >= 0.98 * np.isfinite(truth).sum()
    if reached.any():
        assert np.median(values[reached] / truth[reached]) < 1.02
        assert values[reached].mean() < 1.15 * truth[reached].mean()


@pytest.mark.parametrize("network", [cnn, mlp], ids=["cnn", "mlp"])
def test_is_on_average_no_farther_than_adv_lib_with_as_many_steps(network):
    module, (x, y) = network(), test_digits(64)
    for steps in (30, 80):
        ours = measure(module, x, y, ALMA(steps=steps)).values
        theirs = peer("adv_lib.attacks").alma(
            module, torch.tensor(x), torch.tensor(y), num_steps=steps, init_lr_distance=0.5, α=0.5
        )
        assert_as_good(ours, of_inputs(module, x, y, theirs, Norm.L2), 1.02)


def test_the_size_of_the_scores_does_not_matter():
    x, y = test_digits(30)
    plain = measure(mlp(), x, y, ALMA(steps=40)).values
    for factor in (1e-2, 1e3):
        scaled, _ = measured_and_confirmed(Formula(lambda x, f=factor: f * mlp()(x)), x, ALMA(steps=40), 10)
        right = plain > 0
        assert scaled.values[right].mean() == pytest.approx(plain[right].mean(), rel=0.02)


def test_from_where_there_is_no_gradient_its_first_step_is_by_its_own_key():
    def plateau(x):
        beyond = torch.relu((x - 0.5).square().sum(1).sqrt() - 0.2)
        return torch.stack([0.1 - beyond, torch.zeros_like(beyond)], 1)

    x = np.stack([np.full(6, 0.5), np.linspace(0.45, 0.55, 6)]).astype(np.float32)
    found, model = measured_and_confirmed(Formula(plateau), x, ALMA(steps=60), classes=2)
    assert found.values == pytest.approx([0.3, 0.3 - np.linalg.norm(x[1] - 0.5)], rel=0.02)
    runs = [measure(model, x, [0, 0], ALMA(steps=3), seed=seed).values for seed in (0, 0, 1)]
    assert (runs[0] == runs[1]).all()
    assert (runs[0] != runs[2]).any()


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("steps", 0, "must be at least 1; given 0"),
        ("first_step", 0.0, "must be a positive number; given 0.0"),
        ("smoothing", 1.0, "must lie between 0 and 1; given 1.0"),
    ],
)
def test_refuses_settings_that_lead_nowhere(field, value, message):
    with pytest.raises(InputError, match=f"`{field}` of ALMA {message}"):
        ALMA(**{field: value})
