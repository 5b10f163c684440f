"""Figures of results, drawn with plotly: what users know as `fm.plot`."""

from typing import Any, TypeVar

import plotly.graph_objects as go

from fairmargin.analyses import bracket as brackets
from fairmargin.analyses import robust_accuracy as robust
from fairmargin.analyses.adequacy import Adequacy, budget_courses
from fairmargin.analyses.audit import AuditResult
from fairmargin.analyses.figures import robustness_curves
from fairmargin.analyses.figures import sigma_intervals as intervals_of
from fairmargin.analyses.precision import PrecisionResult
from fairmargin.errors import InputError
from fairmargin.report.draw import draw

_Kind = TypeVar("_Kind")


def curves(result: AuditResult, *, everyone: bool = True) -> go.Figure:
    """Draw I_P(τ) of every group: the share still classified correctly when perturbed up to τ, with confidence bands.

    The steps are exact up to half a percent of the axes, which is not visible. A band that would cover most of the
    figure is left out, and with more than five groups only the least and the most robust have one. With more than
    twelve groups only these have a colour and the others are grey.

    Parameters
    ----------
    result
        What `audit` returned.
    everyone
        Whether to draw the curve of all samples together, as a dotted reference.
    """
    found = _checked(result, AuditResult, "curves", "audit")
    return draw(robustness_curves(found.groups, found.norm, found.up_to, everyone=everyone))


def sigma_intervals(result: AuditResult) -> go.Figure:
    """Draw σ of every group with its interval, least robust first: left of zero is easier to fool than the rest.

    Colour and shape tell the verdict. Groups without a σ stand at the bottom with the reason.

    Parameters
    ----------
    result
        What `audit` returned.
    """
    found = _checked(result, AuditResult, "sigma_intervals", "audit")
    return draw(intervals_of(found.groups, found.confidence))


def precise_intervals(result: PrecisionResult) -> go.Figure:
    """Draw σ of every group with its interval, as `sigma_intervals` does, from an audit to a precision.

    The intervals hold for all groups at once. The grey strip around 0 is as wide as the requested
    interval of a group alone.

    Parameters
    ----------
    result
        What `audit_to_precision` returned.
    """
    found = _checked(result, PrecisionResult, "precise_intervals", "audit_to_precision")
    return draw(intervals_of(found.groups, found.confidence, strip=found.precision))


def bracket_intervals(bracket: brackets.Bracket) -> go.Figure:
    """Draw σ of every group between its bounds: thick for these samples, thin with sampling error for the population.

    Parameters
    ----------
    bracket
        What `bracket` returned.
    """
    return draw(brackets.bracket_intervals(_checked(bracket, brackets.Bracket, "bracket_intervals", "bracket")))


def robust_accuracy_intervals(result: robust.RobustAccuracy) -> go.Figure:
    """Draw the robust accuracy of every group with its interval, the smallest first, and that of all samples.

    Parameters
    ----------
    result
        What `robust_accuracy` returned.
    """
    found = _checked(result, robust.RobustAccuracy, "robust_accuracy_intervals", "robust_accuracy")
    return draw(robust.robust_accuracy_intervals(found))


def budgets(adequacy: Adequacy) -> go.Figure:
    """Draw the mean distance of every group against the attack's budget: lines that go on falling have not settled.

    Solid: the best found up to each budget, with intervals where at most five groups are drawn. Dotted, where it
    differs: what each budget found alone.

    Parameters
    ----------
    adequacy
        What `adequacy` returned.
    """
    found = _checked(adequacy, Adequacy, "budgets", "adequacy")
    if not found.groups:
        raise InputError(f"There are no budgets to draw. {found.headline}")
    return draw(budget_courses(found))


def _checked(given: Any, kind: type[_Kind], function: str, maker: str) -> _Kind:
    """Return what is to be drawn, if it is of the kind that the function draws."""
    if not isinstance(given, kind):
        raise InputError(f"`{function}` draws what `{maker}` returned; given a {type(given).__name__}.")
    return given
