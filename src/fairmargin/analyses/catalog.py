"""The kinds of results by name: what a record stores, a page shows and a program reads back.

>>> RESULTS["bracket"].FORMAT.name
'bracket'
"""

from typing import Any

from fairmargin.analyses.table import GroupTable
from fairmargin.core.catalog import Catalog

RESULTS: Catalog[type[GroupTable[Any]]] = Catalog(
    "kind of result",
    "fairmargin.analyses",
    {
        "audit": "audit:AuditResult",
        "curves": "curves:CurveComparison",
        "precision": "precision:PrecisionResult",
        "robust_accuracy": "robust_accuracy:RobustAccuracy",
        "bracket": "bracket:Bracket",
        "certified": "certified:Certified",
        "adequacy": "adequacy:Adequacy",
        "comparison": "comparison:Comparison",
        "power": "power:Power",
        "training": "training:TrainingCourse",
        "epochs": "epochs:EpochComparison",
        "changes": "changes:NearestChanges",
        "columns": "column_rules:ColumnRules",
    },
)
