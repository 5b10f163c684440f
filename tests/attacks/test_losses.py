import numpy as np
import torch
from torch import nn

from fairmargin.attacks.losses import (
    clipped_margin,
    cross_entropy,
    difference_ratio,
    difference_ratio_towards,
    divergence,
    kl_to,
    log_odds,
    margin,
)

SCORES = torch.tensor([[2.0, -1.0, 0.5], [0.0, 3.0, 1.0], [1.0, 1.0, 1.0]], dtype=torch.float64)
LABELS = torch.tensor([0, 2, 1])


def test_losses_equal_their_formulas():
    own = SCORES[torch.arange(3), LABELS]
    others = torch.stack([SCORES[i, [k for k in range(3) if k != LABELS[i]]] for i in range(3)])
    torch.testing.assert_close(cross_entropy(SCORES, LABELS), SCORES.exp().sum(dim=1).log() - own)
    torch.testing.assert_close(log_odds(SCORES, LABELS), others.exp().sum(dim=1).log() - own)
    torch.testing.assert_close(margin(SCORES, LABELS), others.max(dim=1).values - own)
    torch.testing.assert_close(
        clipped_margin(SCORES, LABELS, 1.0), -(own - others.max(dim=1).values + 1.0).clamp(min=0)
    )
    probability, reference = SCORES.softmax(dim=1), SCORES.flip(1).softmax(dim=1)
    expected = (reference * (reference / probability).log()).sum(dim=1)
    torch.testing.assert_close(kl_to(SCORES.flip(1))(SCORES), expected)


def test_the_log_odds_have_the_gradient_direction_and_the_order_of_the_cross_entropy():
    scores = SCORES.clone().requires_grad_(True)
    (one,) = torch.autograd.grad(cross_entropy(scores, LABELS).sum(), scores)
    (two,) = torch.autograd.grad(log_odds(scores, LABELS).sum(), scores)
    torch.testing.assert_close(nn.functional.normalize(one), nn.functional.normalize(two))
    torch.testing.assert_close(torch.log1p(log_odds(SCORES, LABELS).exp()), cross_entropy(SCORES, LABELS))


def test_a_divergence_has_gradients_for_both_arguments_but_attacks_change_one():
    reference, scores = SCORES.clone().requires_grad_(True), SCORES.flip(1).requires_grad_(True)
    both = torch.autograd.grad(divergence(reference, scores).sum(), (reference, scores))
    assert all((part != 0).any() for part in both)
    (none,) = torch.autograd.grad(kl_to(reference)(scores).sum(), reference, allow_unused=True)
    assert none is None


def slow_ratio(row, label):
    falling = sorted(row, reverse=True)
    others = [score for k, score in enumerate(row) if k != label]
    return -(row[label] - max(others)) / (falling[0] - falling[2])


def slow_ratio_towards(row, label, rival):
    falling = sorted(row, reverse=True)
    return -(row[label] - row[rival]) / (falling[0] - (falling[2] + falling[3]) / 2)


def test_the_difference_of_logits_ratio_equals_the_published_formula():
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(50, 6)), rng.integers(6, size=50)
    rival = (y + rng.integers(1, 6, size=50)) % 6
    scores, label, other = torch.tensor(rows), torch.tensor(y), torch.tensor(rival)
    expected = [slow_ratio(row, k) for row, k in zip(rows.tolist(), y, strict=True)]
    np.testing.assert_allclose(difference_ratio(scores, label), expected)
    expected = [slow_ratio_towards(row, k, j) for row, k, j in zip(rows.tolist(), y, rival, strict=True)]
    np.testing.assert_allclose(difference_ratio_towards(scores, label, other), expected)
    np.testing.assert_allclose(
        difference_ratio_towards(1e4 * scores - 7, label, other), difference_ratio_towards(scores, label, other)
    )


def test_the_ratio_is_the_margin_for_too_few_classes():
    two, three = torch.tensor([[3.0, 1.0]]), torch.tensor([[3.0, 1.0, 2.5]])
    first, second = torch.tensor([0]), torch.tensor([1])
    assert difference_ratio(two, first) == -2
    assert difference_ratio(three, first) == -0.25
    assert difference_ratio_towards(two, first, second) == difference_ratio_towards(three, first, second) == -2


def test_equal_scores_have_a_finite_ratio_and_gradient():
    scores = torch.zeros(1, 5, requires_grad=True)
    value = difference_ratio(scores, torch.tensor([0])) + difference_ratio_towards(
        scores, torch.tensor([0]), torch.tensor([1])
    )
    value.sum().backward()
    assert value == 0
    assert torch.isfinite(scores.grad).all()
