"""What the page and the figures of `fairmargin.report` refuse."""

from fairmargin.analyses.adequacy import nothing_to_settle
from fairmargin.core.bound import Bound
from fairmargin.core.norm import Norm
from fairmargin.report import figures
from fairmargin.report.page import render, write_report
from tests.report.examples import example_result
from tests.spec.refusals import Refusal

REFUSALS = [
    Refusal(lambda _: render("Report", []), "A report needs at least one result"),
    *(
        Refusal(lambda folder, given=given: write_report(folder / "page.html", given), words)
        for given, words in (
            (5, "given a int"),
            ([5], "given a list with a int"),
            (None, "given a NoneType"),
            ("settled", "given a str"),
            ([example_result(), None], "given a list with a NoneType"),
            ([], "at least one result"),
        )
    ),
    *(
        Refusal(lambda _, path=path: write_report(path, example_result()), words, "path")  # type: ignore[misc]
        for path, words in ((None, "must be a path"), (b"x", "must be a path"), ("a\0b", "without null characters"))
    ),
    Refusal(lambda _: figures.precise_intervals(example_result()), "draws what `audit_to_precision` returned"),
    Refusal(lambda _: figures.budgets(example_result()), "`budgets` draws what `adequacy` returned; a AuditResult"),
    Refusal(
        lambda _: figures.budgets(nothing_to_settle(Bound.EXACT, Norm.L2, "sex", "", 0.02)),
        "There are no budgets to draw. The distances are exact",
    ),
]
