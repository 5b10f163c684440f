"""Measure whether a classifier is equally hard to fool for everyone.

>>> import fairmargin as fm
>>> fm.Norm.L2.dual
<Norm.L2: 'l2'>
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fairmargin.version import __version__

if TYPE_CHECKING:
    from fairmargin import data as data
    from fairmargin.analyses.adequacy import Adequacy as Adequacy
    from fairmargin.analyses.audit import AuditResult as AuditResult
    from fairmargin.analyses.audit import audit as audit
    from fairmargin.analyses.bracket import Bracket as Bracket
    from fairmargin.analyses.bracket import bracket as bracket
    from fairmargin.analyses.certified import Certified as Certified
    from fairmargin.analyses.certified import certify_groups as certify_groups
    from fairmargin.analyses.comparison import Comparison as Comparison
    from fairmargin.analyses.comparison import compare as compare
    from fairmargin.analyses.curves import CurveComparison as CurveComparison
    from fairmargin.analyses.curves import compare_curves as compare_curves
    from fairmargin.analyses.power import power as power
    from fairmargin.analyses.precision import PrecisionResult as PrecisionResult
    from fairmargin.analyses.robust_accuracy import RobustAccuracy as RobustAccuracy
    from fairmargin.analyses.robust_accuracy import accuracy_under_attack as accuracy_under_attack
    from fairmargin.attacks.catalog import ATTACKS as ATTACKS
    from fairmargin.attacks.robust_accuracy import robust_accuracy as robust_accuracy
    from fairmargin.core.bound import Bound as Bound
    from fairmargin.core.column import Column as Column
    from fairmargin.core.curve import RobustnessCurve as RobustnessCurve
    from fairmargin.core.distances import Distances as Distances
    from fairmargin.core.domain import Domain as Domain
    from fairmargin.core.norm import Norm as Norm
    from fairmargin.core.partition import Partition as Partition
    from fairmargin.core.undefined import Undefined as Undefined
    from fairmargin.data.catalog import DATASETS as DATASETS
    from fairmargin.data.catalog import load as load
    from fairmargin.data.dataset import Dataset as Dataset
    from fairmargin.data.formats.huggingface import from_huggingface as from_huggingface
    from fairmargin.data.formats.image_folder import load_images as load_images
    from fairmargin.data.formats.torch_dataset import from_torch as from_torch
    from fairmargin.data.overlap import overlap as overlap
    from fairmargin.data.sets.applicants import make_applicants as make_applicants
    from fairmargin.distances.adequacy import adequacy as adequacy
    from fairmargin.distances.catalog import ESTIMATORS as ESTIMATORS
    from fairmargin.distances.combine import Tightest as Tightest
    from fairmargin.distances.combine import tightest as tightest
    from fairmargin.distances.foreign import FromAttack as FromAttack
    from fairmargin.distances.measure import measure as measure
    from fairmargin.distances.nearest import nearest as nearest
    from fairmargin.engine.local import Processes as Processes
    from fairmargin.engine.local import Serial as Serial
    from fairmargin.engine.ray import Ray as Ray
    from fairmargin.errors import FairmarginError as FairmarginError
    from fairmargin.inference.settings import AuditSettings as AuditSettings
    from fairmargin.models.architectures.catalog import ARCHITECTURES as ARCHITECTURES
    from fairmargin.models.architectures.catalog import build_architecture as build_architecture
    from fairmargin.models.as_classifier import as_classifier as as_classifier
    from fairmargin.report import figures as plot  # noqa: F401
    from fairmargin.report.page import write_report as write_report
    from fairmargin.runner.audit_model import audit_model as audit_model
    from fairmargin.runner.precision import PrecisionPlan as PrecisionPlan
    from fairmargin.runner.precision import audit_to_precision as audit_to_precision
    from fairmargin.study.record import RunRecord as RunRecord
    from fairmargin.training.catalog import METHODS as METHODS
    from fairmargin.training.plan import TrainingPlan as TrainingPlan
    from fairmargin.training.train import TrainingResult as TrainingResult
    from fairmargin.training.train import train as train

# Name -> where it is defined. Resolved when first used (PEP 562), so that importing fairmargin loads next to nothing,
# and torch only for those who need it.
_DEFINED_IN = {
    "ARCHITECTURES": "fairmargin.models.architectures.catalog",
    "ATTACKS": "fairmargin.attacks.catalog",
    "Adequacy": "fairmargin.analyses.adequacy",
    "AuditSettings": "fairmargin.inference.settings",
    "AuditResult": "fairmargin.analyses.audit",
    "Bound": "fairmargin.core.bound",
    "Bracket": "fairmargin.analyses.bracket",
    "Certified": "fairmargin.analyses.certified",
    "Column": "fairmargin.core.column",
    "Comparison": "fairmargin.analyses.comparison",
    "CurveComparison": "fairmargin.analyses.curves",
    "DATASETS": "fairmargin.data.catalog",
    "Dataset": "fairmargin.data.dataset",
    "Distances": "fairmargin.core.distances",
    "Domain": "fairmargin.core.domain",
    "ESTIMATORS": "fairmargin.distances.catalog",
    "FairmarginError": "fairmargin.errors",
    "FromAttack": "fairmargin.distances.foreign",
    "METHODS": "fairmargin.training.catalog",
    "Norm": "fairmargin.core.norm",
    "Partition": "fairmargin.core.partition",
    "PrecisionPlan": "fairmargin.runner.precision",
    "PrecisionResult": "fairmargin.analyses.precision",
    "Processes": "fairmargin.engine.local",
    "RobustAccuracy": "fairmargin.analyses.robust_accuracy",
    "RobustnessCurve": "fairmargin.core.curve",
    "Ray": "fairmargin.engine.ray",
    "Serial": "fairmargin.engine.local",
    "Tightest": "fairmargin.distances.combine",
    "TrainingPlan": "fairmargin.training.plan",
    "TrainingResult": "fairmargin.training.train",
    "Undefined": "fairmargin.core.undefined",
    "RunRecord": "fairmargin.study.record",
    "accuracy_under_attack": "fairmargin.analyses.robust_accuracy",
    "adequacy": "fairmargin.distances.adequacy",
    "as_classifier": "fairmargin.models.as_classifier",
    "audit": "fairmargin.analyses.audit",
    "audit_model": "fairmargin.runner.audit_model",
    "audit_to_precision": "fairmargin.runner.precision",
    "bracket": "fairmargin.analyses.bracket",
    "build_architecture": "fairmargin.models.architectures.catalog",
    "certify_groups": "fairmargin.analyses.certified",
    "compare": "fairmargin.analyses.comparison",
    "compare_curves": "fairmargin.analyses.curves",
    "from_huggingface": "fairmargin.data.formats.huggingface",
    "from_torch": "fairmargin.data.formats.torch_dataset",
    "load": "fairmargin.data.catalog",
    "load_images": "fairmargin.data.formats.image_folder",
    "make_applicants": "fairmargin.data.sets.applicants",
    "measure": "fairmargin.distances.measure",
    "nearest": "fairmargin.distances.nearest",
    "overlap": "fairmargin.data.overlap",
    "power": "fairmargin.analyses.power",
    "robust_accuracy": "fairmargin.attacks.robust_accuracy",
    "tightest": "fairmargin.distances.combine",
    "train": "fairmargin.training.train",
    "write_report": "fairmargin.report.page",
}
_MODULES = {
    "data": "fairmargin.data",
    "plot": "fairmargin.report.figures",
}

__all__ = [*_DEFINED_IN, *_MODULES, "__version__"]  # noqa: PLE0604 - names, all of them


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _DEFINED_IN:
        return getattr(import_module(_DEFINED_IN[name]), name)
    raise AttributeError(f"module 'fairmargin' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
