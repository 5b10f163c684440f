from dataclasses import dataclass

import numpy as np
import pytest
import torch

from fairmargin.attacks.apgd import APGD
from fairmargin.attacks.ascent import ascend
from fairmargin.attacks.autoattack import AutoAttack
from fairmargin.attacks.losses import cross_entropy
from fairmargin.attacks.square import Square
from fairmargin.core.norm import Norm
from fairmargin.distances.measure import measure
from fairmargin.distances.plumb.estimator import Plumb
from fairmargin.models.as_classifier import as_classifier
from fairmargin.perturbation.balls import Ball
from tests.attacks.victims import run
from tests.distances.confirmation import Formula
from tests.perturbation.networks import cnn, test_digits

both_norms = pytest.mark.parametrize("norm", [Norm.LINF, Norm.L2])
RADIUS = {Norm.LINF: 0.06, Norm.L2: 0.45}
SMALL = {"steps": 12, "targets": 2, "queries": 40}


@dataclass(frozen=True)
class Alone(AutoAttack):
    """One of the four attacks of AutoAttack."""

    member: int = 0

    def search(self, survivors):
        self.members[self.member](survivors)


@both_norms
def test_fools_the_samples_that_at_least_one_of_its_attacks_fools_alone(norm):
    (x, y), model = test_digits(64), as_classifier(cnn())
    attacks = [AutoAttack(norm, **SMALL), *(Alone(norm, **SMALL, member=i) for i in range(4))]
    attacks += [APGD(norm, 12), APGD(norm, 12, loss="dlr", targets=2), Square(norm, 40)]
    together, *alone = (model.predict(run(each, model, x, y, RADIUS[norm])) != y for each in attacks)
    np.testing.assert_array_equal(together, np.any(alone[:4], axis=0))
    assert not (np.any(alone[4:], axis=0) & ~together).any()


@both_norms
def test_its_minimum_norm_search_fools_the_samples_that_plumb_finds_within_the_radius(norm):
    (x, y), model = test_digits(60), as_classifier(cnn())
    found = measure(model, x, y, Plumb(norm, 12))
    fooled = model.predict(run(Alone(norm, steps=12, member=2), model, x, y, RADIUS[norm])) != y
    assert 5 < fooled.sum() < 55
    assert fooled[found.values <= RADIUS[norm] * 0.999].all()
    assert not fooled[found.values > RADIUS[norm] * 1.05].all()


def test_multiplying_the_scores_does_not_hide_misclassified_inputs():
    # For such a model the gradient of the cross-entropy underflows; those of log-odds and ratios do not.
    x, y = test_digits(40)
    body = cnn()
    plain, masked = (as_classifier(Formula(lambda x, k=k: k * body(x)), classes=range(10)) for k in (1, 1000))
    ball = Ball.around(torch.tensor(x), Norm.LINF, 0.06, 0.0, 1.0)
    label = torch.tensor(y)
    blind = ascend(lambda at: cross_entropy(1000 * body(at), label), torch.tensor(x), ball=ball, step=0.015, steps=20)
    attack = AutoAttack(steps=12, targets=3, queries=30)
    wrong = [
        int((model.predict(found) != y).sum())
        for model, found in (
            (masked, blind.numpy()),
            (masked, run(attack, masked, x, y, 0.06)),
            (plain, run(attack, plain, x, y, 0.06)),
            (masked, run(APGD(steps=12, loss="dlr"), masked, x, y, 0.06)),
        )
    ]
    assert wrong[0] < wrong[3] <= wrong[1] + 1
    assert abs(wrong[1] - wrong[2]) <= 1
