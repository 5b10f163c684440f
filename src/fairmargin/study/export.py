"""A run as plain values, for `--json`."""

from typing import Any

from fairmargin.analyses.catalog import RESULTS
from fairmargin.study.record import RunRecord

_KEYS = {"audit": "audits", "bracket": "brackets", "certified": "certificates"}
"""Keys of kinds whose key in the JSON differs from the name of the kind."""
_OF_AUDITS = ("audits", "adequacy", "brackets", "certificates")
"""Keys that the JSON of every audit has, even if the list is empty."""
_LARGE = ("curve", "distances")
"""Fields of groups that hold one number per sample; the run folder has them."""


def as_json(record: RunRecord) -> dict[str, Any]:
    """Return the results of a run by kind, each with what it is about and its sentences, and the run's notes.

    Numbers per sample are left out.
    """
    found: dict[str, Any] = {_KEYS.get(kind, kind): [] for kind in RESULTS}
    for stored in record.results:
        content = record.result(stored).to_dict()
        for row in content["groups"]:
            for name in _LARGE:
                row.pop(name, None)
        about = stored.about.model_dump(exclude_defaults=True)
        if stored.kind == "bracket":
            about["between"] = about.pop("estimator", "")
        found[_KEYS.get(stored.kind, stored.kind)].append({**about, **content, **about})
    asked = record.study.audit
    always = _OF_AUDITS if asked is not None and not asked.precision else ()
    return {
        **{key: each for key, each in found.items() if each or key in always},
        "notes": list(record.notes),
        "failures": list(record.failures),
    }
