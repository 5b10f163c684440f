"""Row of FARMUR's claim 12: the time to find vulnerable groups against that of retraining, on one thread."""

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fairmargin.data.dataset import Dataset
from fairmargin.distances.catalog import parse_estimator
from fairmargin.distances.measure import measure
from fairmargin.runner.networks import Model
from fairmargin.runner.study_run import StudyRun
from fairmargin.store.atomic import atomic_write_text
from fairmargin.training.loop.reproducibility import threads
from fairmargin.training.methods.farmur import Farmur
from fairmargin.training.train import train
from fairmargin_papers.farmur.studies import ADVERSARIAL, EQUATION_8, FAIR, Setting
from fairmargin_papers.shared.claims import Claim, directed
from fairmargin_papers.shared.paper import Assignment
from fairmargin_papers.shared.trained import over_seeds

_RETRAINING = 20  # epochs in the paper
_TIMES = 3  # repetitions, of which the shortest counts, because other load only makes them longer
_FILE = "seconds.json"


def cost_ratios(assignment: Assignment, grid: StudyRun, samples: int) -> list[float]:
    """Return the time to measure training samples by Eq. 8 over that of 20 epochs of retraining, per network.

    Times differ between runs, and are stored so that the same folder gives the same page. `samples` is the number of
    training samples on which both are timed.
    """
    path = grid.folder.path / _FILE
    networks = [each for each in grid.networks() if each.method == ADVERSARIAL]
    about = [each.prepared.job.key for each in networks if each.prepared is not None] + [str(samples)]
    known = _kept(path, about)
    if known is not None:
        return known
    found = []
    for place, trained in enumerate(networks):
        assignment.progress("farmur: time of finding and retraining", place, len(networks))
        found.append(_ratio(grid, trained, samples))
    assignment.progress("farmur: time of finding and retraining", len(networks), len(networks))
    atomic_write_text(path, json.dumps({"of": about, "ratios": found}) + "\n")
    return found


def cost_row(claim: Claim, ratios: Sequence[float], setting: Setting, samples: int) -> Claim:
    """Return the row on whether finding takes longer, that is, whether the ratio is above 1."""
    ratio = over_seeds(ratios)
    return claim.found(
        f"{setting.title}: finding takes {ratio.text(1, 2)} times as long as retraining",
        directed(ratio, "above", 1.0),
        printed="6 against 4 GPU hours, 1.5 times",
        remark=f"Finding: Eq. 8 for {samples:,} training samples, in batches. Retraining: one epoch of FARMUR's second "
        f"phase on the same samples, times {_RETRAINING} as in the paper. Both are timed by turns in one process and "
        f"on one thread, the best of {_TIMES}, for each seed's adversarially trained network; `farmur` here finds "
        f"the groups by at most 200 samples of each, which takes less. {setting.instead}",
    )


def _ratio(grid: StudyRun, trained: Model, samples: int) -> float:
    assert trained.prepared is not None
    training = trained.prepared.job.data.training
    some = training.take(slice_of(training, samples))
    model = trained.classifier()
    finding, epoch = [], []
    with threads(1):
        # A first measurement, so that what is loaded only once is not timed.
        measure(model, some.x[:2], some.y[:2], parse_estimator(EQUATION_8), progress=False)
        for _ in range(_TIMES):
            began = time.perf_counter()
            measure(model, some.x, some.y, parse_estimator(EQUATION_8), progress=False)
            finding.append(time.perf_counter() - began)
            epoch.append(_epoch_seconds(grid, trained, some))
    return min(finding) / (_RETRAINING * min(epoch))


def slice_of(dataset: Dataset, samples: int) -> list[int]:
    """Return positions of this number of samples, spread over all so that every group is among them.

    >>> import numpy as np
    >>> from fairmargin.core.domain import Domain
    >>> slice_of(Dataset(np.zeros((6, 2)), [0] * 6, {}, Domain(0, 1)), 3)
    [0, 2, 4]
    """
    step = max(1, len(dataset) // samples)
    return list(range(0, len(dataset), step))[:samples]


def _epoch_seconds(grid: StudyRun, trained: Model, some: Dataset) -> float:
    """Time one epoch of the second phase: the second of two epochs, of which the first is TRADES."""
    fair = next(each for each in grid.networks() if (each.method, each.seed) == (FAIR, trained.seed))
    assert fair.prepared is not None
    job = fair.prepared.job
    method = job.method
    assert isinstance(method, Farmur)
    brief = replace(method, since=0.5, samples=5)  # finding the groups is not timed here
    done = train(trained.module(), some, brief, epochs=2, partition=job.groups, plan=job.plan)
    return done.history[-1].seconds


def _kept(path: Path, about: list[str]) -> list[float] | None:
    """Return the stored times of the same networks; None if there are none, or the file is damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return [float(value) for value in found["ratios"]] if found["of"] == about else None
    except (OSError, ValueError, TypeError, KeyError):
        return None
