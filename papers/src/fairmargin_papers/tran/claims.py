"""Rows of Tran's claims on a sweep over λ: changes along λ, fair against plain, and ramp against cross-entropy."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fairmargin.core.arrays import Floats
from fairmargin_papers.shared.claims import Claim, Side, directed
from fairmargin_papers.shared.trained import SeedMean, over_seeds, slope_over_seeds
from fairmargin_papers.tran.studies import AGE, CROSS_ENTROPY, OBJECTS, RACE, RAMP, SweepPlan
from fairmargin_papers.tran.sweep import Curves, Sweep

_PERCENT = 100.0
# Data on which the paper shows results for a claim; of others it says in an appendix that they are similar.
_SHOWN_ON = {9: (RACE, AGE, OBJECTS), 10: (RACE, AGE, OBJECTS), 11: (RACE, AGE, OBJECTS), 12: (RACE,), 14: (RACE,)}
_NONE_LEFT = "Networks collapsed: there is nothing to compare."
# Claim, field, name, unit, scale of the numbers, side, and text of the row if it is not that of the claim.
_ALONG: tuple[tuple[int, str, str, str, float, Side, str], ...] = (
    (9, "natural", "natural error", "%", _PERCENT, "above", ""),
    (10, "violation", "violation", "%", _PERCENT, "below", ""),
    (11, "margin", "softmax margin", "", 1.0, "below", ""),
    (11, "distance", "L2 distance", "", 1.0, "below", "(ours) The real distance to the boundary falls with λ."),
)


def sweep_numbers(plan: SweepPlan) -> tuple[int, ...]:
    """Return the numbers of the claims that a sweep tests."""
    return (9, 10, 11, 12, *((14,) if RAMP in plan.losses else ()), *((16,) if plan.pair else ()))


def sweep_rows(claims: Mapping[int, Claim], sweep: Sweep) -> list[Claim]:
    """Return all rows of a sweep."""
    plain = sweep.curves[CROSS_ENTROPY]
    shown = {number for number, names in _SHOWN_ON.items() if sweep.plan.subject.name in names}
    claims = {number: claim if number in shown else replace(claim, printed="") for number, claim in claims.items()}
    rows = [
        along(claims[number], plain, field, words, unit, scale, side, _titled(text or claims[number].text, sweep))
        for number, field, words, unit, scale, side, text in _ALONG
    ]
    rows += fair_against_plain(claims[12], sweep)
    rows.append(group_loss_against_plain(claims[12], plain, sweep.group_loss, sweep))
    if RAMP in sweep.curves:
        for field in ("natural", "boundary"):
            text = _titled(f"The ramp loss lowers the {field} error at λ > 0", sweep)
            rows.append(ramp_against(claims[14], plain, sweep.curves[RAMP], field, text))
    return rows


def along(
    claim: Claim, curves: Curves, field: str, words: str, unit: str, scale: float, side: Side, text: str
) -> Claim:
    """Test how a number changes from the least to the largest sound λ, along a line through each seed's values."""
    kept, left_out = list(curves.sound), _left_out(curves)
    printed = "" if text.startswith("(ours)") else None
    if len(kept) < 2:
        told = _path(words, unit, scale * getattr(curves, field), list(curves.weights))
        return claim.found(told, "undecided", text=text, printed=printed, remark=f"{_NONE_LEFT} {left_out}")
    values: Floats = scale * getattr(curves, field)[:, kept]
    weights = [curves.weights[i] for i in kept]
    change = slope_over_seeds([weight / (weights[-1] - weights[0]) for weight in weights], values)
    points = " points" if unit == "%" else ""
    return claim.found(
        f"{_path(words, unit, values, weights)}; on a fitted line {_signed(change, unit)}{points}",
        directed(change, side),
        text=text,
        printed=printed,
        remark=left_out,
    )


def fair_against_plain(claim: Claim, sweep: Sweep) -> list[Claim]:
    """Compare boundary errors at λ > 0 with those at 0, of all samples and of those that are correct."""
    curves = sweep.curves[CROSS_ENTROPY]
    texts = _titled(claim.text, sweep), _titled("(ours) The same among the samples that are right", sweep)
    fair, left_out = list(curves.fair), _left_out(curves)
    if not fair:
        remark = f"{_NONE_LEFT} {left_out}"
        return [claim.found("networks collapsed", "undecided", text=text, remark=remark) for text in texts]
    more = _PERCENT * (curves.boundary[:, fair] - curves.boundary[:, :1])
    difference = over_seeds(more.mean(axis=(1, 2)))
    cells = more.mean(axis=0)
    i, j = np.unravel_index(int(cells.argmax()), cells.shape)
    most = f"{cells[i, j]:+.1f}".replace("-", "−")
    lost = _PERCENT * (curves.boundary / np.maximum(1 - curves.natural, 1e-12)[:, :, None]).mean(axis=2)
    among = over_seeds(lost[:, fair].mean(axis=1) - lost[:, 0])
    return [
        claim.found(
            f"{_signed(difference, '%')} points on average over λ and ε; at most {most} "
            f"(λ = {curves.weights[fair[int(i)]]:g}, ε = {sweep.plan.subject.radii[int(j)]})",
            directed(difference, "above"),
            text=texts[0],
            remark=left_out,
        ),
        claim.found(
            f"{lost[:, 0].mean():.1f} % flip at λ = 0, {lost[:, fair].mean():.1f} % at λ > 0: "
            f"{_signed(among, '%')} points on average over λ and ε",
            directed(among, "above"),
            text=texts[1],
            printed="",
            remark="A sample that is misclassified without an attack has no boundary error, so that a model that is "
            f"wrong more often has fewer to lose. {left_out}",
        ),
    ]


def group_loss_against_plain(claim: Claim, plain: Curves, group_loss: Curves, sweep: Sweep) -> Claim:
    """Compare boundary errors of networks trained by the worst group's loss with those at λ = 0."""
    text = _titled("Boundary errors of networks trained by the worst group’s loss are larger", sweep)
    if plain.collapsed[:, 0].any() or group_loss.collapsed.any():
        return claim.found("networks collapsed", "undecided", text=text, printed="Appendix E", remark=_NONE_LEFT)
    difference = over_seeds(_PERCENT * (group_loss.boundary[:, 0] - plain.boundary[:, 0]).mean(axis=1))
    return claim.found(
        f"{_signed(difference, '%')} points on average over ε",
        directed(difference, "above"),
        text=text,
        printed="Appendix E",
        remark="The paper's appendix is not available; its text says “similar results”.",
    )


def ramp_against(claim: Claim, plain: Curves, ramp: Curves, field: str, text: str) -> Claim:
    """Compare the ramp loss with cross-entropy over every λ > 0 at which neither collapsed (and over all radii)."""
    both = [i for i in plain.sound if i in ramp.sound and plain.weights[i] > 0]
    if not both:
        return claim.found(
            "networks collapsed", "undecided", text=text, remark=f"{_NONE_LEFT} {_left_out(ramp, 'with ramp ')}"
        )
    less: Floats = _PERCENT * (getattr(ramp, field)[:, both] - getattr(plain, field)[:, both])
    difference = over_seeds(less.reshape(len(less), -1).mean(axis=1))
    violation = [_PERCENT * float(curves.violation[:, both].mean()) for curves in (plain, ramp)]
    return claim.found(
        f"{_signed(difference, '%')} points on average",
        directed(difference, "below"),
        text=text,
        remark=f"Its price: the violation is {violation[1]:.1f} % with ramp and {violation[0]:.1f} % with "
        f"cross-entropy at the same λ = {_listed([plain.weights[i] for i in both])}. "
        f"{_left_out(ramp, 'with ramp ')}",
    )


def _titled(text: str, sweep: Sweep) -> str:
    return f"{text.rstrip('.')}: {sweep.title}."


def _left_out(curves: Curves, how: str = "") -> str:
    gone = [
        f"{how}λ = {weight:g} ({int(count)} of {len(curves.collapsed)} seeds)"
        for weight, count in zip(curves.weights, curves.collapsed.sum(axis=0), strict=True)
        if count
    ]
    return f"Left out, collapsed: {', '.join(gone)}." if gone else ""


def _path(words: str, unit: str, values: Floats, weights: list[float]) -> str:
    path = " → ".join(f"{mean:.{1 if unit == '%' else 3}f}" for mean in values.mean(axis=0))
    return f"{words} {path}{unit and ' ' + unit} at λ = {_listed(weights)}"


def _signed(mean: SeedMean, unit: str) -> str:
    return mean.signed(1 if unit == "%" else 3)


def _listed(weights: list[float]) -> str:
    return ", ".join(f"{weight:g}" for weight in weights)
