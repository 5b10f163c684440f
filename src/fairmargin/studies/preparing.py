"""What every kind of run does before it measures: estimators, references, and a folder of its own."""

import platform
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version

from fairmargin.distances.catalog import in_options
from fairmargin.distances.measure import check_estimator
from fairmargin.distances.protocol import DistanceEstimator
from fairmargin.errors import FairmarginError, StoreError
from fairmargin.models.linear_network import served
from fairmargin.models.referenced import drawn
from fairmargin.studies.loading import Loaded
from fairmargin.studies.measuring import Progress
from fairmargin.studies.run_folder import RunFolder
from fairmargin.studies.study import Study, differing
from fairmargin.version import __version__

_PACKAGES = ("numpy", "scipy", "pandas", "scikit-learn", "torch")


def estimators_of(study: Study, loaded: Loaded) -> tuple[str, ...]:
    """Return the estimators asked for; without any, exact_linear for a model that gives its weights, else plumb."""
    if loaded.model is None:
        return ()
    default = "exact_linear" if "linear" in loaded.model.offers else "plumb"
    return tuple(dict.fromkeys(study.estimators)) or (default,)


def referenced(loaded: Loaded, estimators: list[DistanceEstimator], tell: Progress) -> Loaded:
    """With some of the samples for searches to fall back on, fixed before anything is measured, in any order of work.

    They depend on the content of the whole data alone, so that shards, engines and restarts fall back on the same.
    """
    if loaded.dataset is None or not any(estimator.needs == "gradient" for estimator in estimators):
        return loaded
    chosen = drawn(
        loaded.dataset.x,
        loaded.positions,
        progress=lambda done, total: tell("choosing references", done, total),
    )
    return replace(loaded, references=chosen)


def check_served(loaded: Loaded, text: str, estimator: DistanceEstimator) -> None:
    """Refuse an estimator that the model cannot serve, in the words of the options."""
    assert loaded.model is not None
    assert loaded.dataset is not None
    try:
        check_estimator(served(loaded.model, estimator.needs, tuple(map(int, loaded.dataset.x.shape[1:]))), estimator)
    except FairmarginError as error:
        said = str(error).replace("`Tightest`", f"`{text}`").replace(f"`{type(loaded.model).__name__}`", "this model")
        raise type(error)(in_options(said)) from None


def claim(folder: RunFolder, study: Study) -> Study | None:
    """What the folder was asked before, if anything; it belongs to one model on one data set."""
    old = folder.read_study()
    for other in filter(None, (old, folder.read_study("attack_study.json"))):
        if differing(other, study):
            names = ", ".join(
                f"{n} ({getattr(other, n)!r}, now {getattr(study, n)!r})" for n in differing(other, study)
            )
            raise StoreError(f"{folder.path} holds another audit: it differs in {names}. Choose another --out.")
    folder.write_study(study)
    return old


def versions() -> dict[str, str]:
    """Of all that numbers depend on."""
    found = {"fairmargin": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
