"""Strength of the attacks of the catalog. The protocol does not require it, so new attacks need not be listed here."""

from collections.abc import Callable

import numpy as np
import pytest
from torch import nn

from fairmargin.attacks.catalog import ATTACKS
from fairmargin.core.norm import Norm
from fairmargin.models.as_classifier import as_classifier
from tests.perturbation.networks import cnn, mlp
from tests.spec.test_every_attack import RADIUS, problem, run, small, some_digits

KNOWN = ["fgsm", "rfgsm", "pgd", "margin_pgd", "apgd", "square", "autoattack"]
every_attack = pytest.mark.parametrize(
    ("name", "norm"), [(name, norm) for name in KNOWN for norm in sorted(ATTACKS[name].norms, key=str)]
)


@pytest.mark.parametrize("network", [cnn, mlp], ids=["cnn", "mlp"])
@every_attack
def test_fools_more_samples_with_a_larger_radius(name: str, norm: Norm, network: Callable[[], nn.Module]) -> None:
    module = network()
    x, y = some_digits(module)
    model = as_classifier(module)
    shares = []
    for radius in (0.02, 1.0, 4.0):
        found = run(small(name, norm), model, x, y, radius * RADIUS[norm])
        shares.append(float((model.predict(found) != y).mean()))
    assert shares[0] <= 0.4  # a fifth is misclassified before the attack
    assert shares[0] < shares[1] <= shares[2]
    assert shares[2] >= 0.8


@every_attack
def test_changes_samples_that_are_classified_correctly(name: str, norm: Norm) -> None:
    model, x, y = problem()
    found = run(small(name, norm), model, x, y, 0.3)
    correct = model.predict(x) == y
    assert (found[correct] != x[correct]).any(axis=1).mean() > 0.5
    assert np.isfinite(found).all()
