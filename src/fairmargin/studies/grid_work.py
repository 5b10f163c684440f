"""What is done for a study's tasks, perhaps in another process: train a network, load it, measure a shard."""

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from fairmargin.attacks.outcomes import check_radius
from fairmargin.attacks.protocol import Attack, check_attack
from fairmargin.core.progress import Progress
from fairmargin.distances.measure import check_estimator
from fairmargin.errors import FairmarginError, InputError, exits_refused
from fairmargin.models.linear_network import served
from fairmargin.models.torch_model import TorchClassifier
from fairmargin.models.weights import load_weights
from fairmargin.runner.measurer import ShardPlan, attack_plan_of, plans_of
from fairmargin.runner.trainer import TrainingJob, train_network
from fairmargin.runner.training_data import TrainingData, build_network, weights_of
from fairmargin.studies.grid import Cell, GridTask, Measure
from fairmargin.studies.grid_samples import GridSamples, listener, load_samples, training_groups
from fairmargin.studies.study_sections import AttackSection
from fairmargin.studies.study_training import BEST, LAST
from fairmargin.study.options import ModelOptions
from fairmargin.study.study import ARCHITECTURE
from fairmargin.training.checkpoints import BEST as BEST_FILE
from fairmargin.training.checkpoints import FINAL, TrainingFolder

SEED = 0  # of estimators and attacks: all networks are measured with the same randomness


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of a call: its result, or why there is none; one failure must not end all other tasks."""

    result: Any = None
    failure: str = ""
    trace: str = ""
    seconds: float = 0.0


def attempted(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Attempt:
    """Call, and catch what is raised.

    >>> attempted(abs, (-1,)).result, attempted(abs, ("x",)).failure
    (1, "TypeError: bad operand type for abs(): 'str'")
    """
    began = time.perf_counter()
    try:
        with exits_refused():
            result = function(*arguments)
    except FairmarginError as error:
        return Attempt(failure=str(error), seconds=time.perf_counter() - began)
    except Exception as error:  # whatever it is, it is said with the task's name, and the other tasks go on
        said = (str(error) or "no message").strip().splitlines()[0]
        return Attempt(None, f"{type(error).__name__}: {said}", traceback.format_exc(), time.perf_counter() - began)
    return Attempt(result, seconds=time.perf_counter() - began)


def train_cell(cell: Cell, folder: Path) -> tuple[int, int]:
    """Train a network into its folder, or go on with it; how many epochs it took, and which was the best.

    Guarantee: the same weights in any process, since the number of threads is the study's.
    """
    data, settings = samples_of(cell).trained, cell.settings
    assert data is not None
    assert settings is not None
    module = build_network(_model_options(cell), _place(cell), data, settings.plan.seed)
    groups = training_groups(cell.data, cell.groups)
    plan = settings.plan.model_copy(update={"threads": cell.threads})
    job = TrainingJob(module, data, settings.method, settings.epochs, plan, groups)
    found = train_network(job, folder, _told(cell))
    if found.diverged:
        raise InputError(found.stopped)
    return len(found.history), found.best_epoch


def _told(cell: Cell) -> Progress | None:
    """Who is told of a training's steps, under one name for all of them."""
    tell = listener()
    return None if tell is None else lambda _what, done, total: tell(f"training {cell.name}", done, total)


def samples_of(cell: Cell) -> GridSamples:
    """The samples of a network's data; loaded once in a process."""
    return load_samples(cell.data, cell.groups, cell.settings is not None)


def work_of(task: GridTask) -> float:
    """Passes for each sample, times samples."""
    samples = samples_of(task.cell)
    if task.measure is not None:
        return task.passes * len(samples.test)
    return task.passes * (0 if samples.trained is None else len(samples.trained.training))


def origin_of(cell: Cell) -> str:
    """A hash of the content that the network comes from: training data, or a file of weights."""
    digest = sha256()
    for path in filter(None, (cell.network.weights, cell.network.start)):
        try:
            digest.update(Path(path).read_bytes())
        except OSError as error:
            why = error.strerror or error
            raise InputError(f"[[network]] {cell.network.name}: cannot read {path} ({why}).") from None
    data = samples_of(cell).trained
    if cell.settings is not None and data is not None:
        for dataset in filter(None, (data.training, data.validation)):
            digest.update(f"{dataset.fingerprint} {dataset.domain.fingerprint()}".encode())
            digest.update(dataset.partition(training_groups(cell.data, cell.groups)).membership.tobytes())
    return digest.hexdigest()


def network_at(cell: Cell, folder: Path | None, epoch: str = LAST) -> TorchClassifier:
    """The network after an epoch, ready to be measured; without a folder and weights as it is before training."""
    samples = samples_of(cell)
    data = samples.trained or TrainingData(samples.test, None, samples.outputs)
    seed = 0 if cell.settings is None else cell.settings.plan.seed
    module = build_network(_model_options(cell), _place(cell), data, seed)
    if folder is not None:
        path = weights_at(folder, epoch)
        if not path.exists():
            raise InputError(f"there is no epoch {epoch}: the training ended before.")
        load_weights(weights_of(module), path)
    return TorchClassifier(module.eval(), tuple(range(samples.outputs)), samples.test.domain)


def weights_at(folder: Path, epoch: str) -> Path:
    """The file of an epoch's weights."""
    if epoch in (LAST, BEST):
        return folder / (FINAL if epoch == LAST else BEST_FILE)
    return TrainingFolder(folder).epoch_file(int(epoch))


def shard_plans(model: TorchClassifier, cell: Cell, measure: Measure, references: Any) -> list[ShardPlan]:
    """The tasks that measure this on the network; of several estimators joined by +, a plan for each."""
    samples, means = samples_of(cell), measure.means
    where = (model, samples.test, samples.positions)
    if isinstance(means, Attack) and isinstance(measure.section, AttackSection):
        return [attack_plan_of(*where, means, measure.radius, SEED)]
    return plans_of(*where, means, SEED, references)  # type: ignore[arg-type]


def check_measure(model: TorchClassifier, cell: Cell, measure: Measure) -> None:
    """Refuse, before hours of training, what the network cannot serve or the data cannot hold."""
    means, test = measure.means, samples_of(cell).test
    subject = served(model, means.needs, tuple(map(int, test.x.shape[1:])))
    if not isinstance(measure.section, AttackSection):
        check_estimator(subject, means)  # type: ignore[arg-type]
        return
    check_attack(subject, means)  # type: ignore[arg-type]
    check_radius(subject.domain, means.norm, measure.radius, int(np.prod(test.x.shape[1:])))


def _place(cell: Cell) -> str:
    return cell.data.train if cell.data.is_file else cell.data.dataset


def _model_options(cell: Cell) -> ModelOptions:
    mean, std = cell.normalisation
    network = cell.network
    weights = network.weights or network.start
    return ModelOptions(model=f"{ARCHITECTURE}{network.architecture}", weights=weights, mean=mean, std=std)
