"""Datasets, networks and estimators of Nanda's experiments at each scale, as sections of studies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairmargin_papers.shared.paper import Scale
from fairmargin_papers.shared.trained import study_sections

EXACT, DEEPFOOL, CARLINI, SMOOTHING = "exact", "DeepFool", "C&W", "smoothing"
OLD_DEEPFOOL, OLD_CARLINI, LESS_NOISE = "DeepFool as published", "C&W as published", "less noise"
FIRST, MIDDLE, LAST = "first", "middle", "last"
NOISE, LITTLE_NOISE = 0.125, 0.0625  # the paper adds .125 to CIFAR divided by .5, which is .0625 of the pixels
LOGISTIC = "logistic regression"
PRETRAINED = ", pre-trained"
TITLES = {"lenet5": "LeNet-5", "small_cnn": "small CNN", "resnet8": "ResNet-8", "logistic": "linear network"}
_HALF = [0.5, 0.5, 0.5]
_IMAGENET = ("alexnet", "resnet50_imagenet", "vgg19", "densenet121", "squeezenet1_0")


@dataclass(frozen=True, slots=True)
class Setting:
    """A dataset of the paper at one scale."""

    name: str  # in the catalog of datasets
    title: str
    partitions: tuple[str, ...] = ("class",)
    sensitive: tuple[str, ...] = ()  # partitions by a sensitive attribute
    median: float = float("nan")  # printed median distance under logistic regression
    linear: Mapping[str, Any] = field(default_factory=dict)  # options of the data of logistic regressions
    data: Mapping[str, Any] = field(default_factory=dict)  # options of the data of networks
    scratch: tuple[str, ...] = ()  # architectures that start with random weights
    warm: tuple[str, ...] = ()  # architectures that start with weights trained on `source`
    source: str = ""  # a dataset, or "imagenet" for public weights

    @property
    def std(self) -> float:
        """Number by which the paper divides pixels, if it is the same for all channels; otherwise 1."""
        same = self.name.startswith("cifar") and self.linear.get("std")
        return float(same[0]) if same else 1.0


@dataclass(frozen=True, slots=True)
class Effort:
    """Trainings and estimators of a scale."""

    seeds: tuple[int, ...]
    linear_training: Mapping[str, Any]
    training: Mapping[str, Any]
    linear_estimators: Mapping[str, str]
    estimators: Mapping[str, str]


def effort(scale: Scale) -> Effort:
    """Return the trainings and estimators of a scale."""
    return _EFFORTS[scale]


def settings(scale: Scale) -> tuple[Setting, ...]:
    """Return the datasets of a scale; a dataset on which others' weights are learned comes first."""
    return _SETTINGS[scale]


def linear_sections(setting: Setting, scale: Scale) -> dict[str, Any]:
    """Return the study of a dataset's logistic regressions, measured exactly and by all estimators."""
    work = _EFFORTS[scale]
    return study_sections(
        title=f"Nanda 2021: logistic regression on {setting.title}",
        data={"data": setting.name, **setting.linear},
        groups=setting.partitions,
        models={LOGISTIC: {"model": "arch:logistic"}},
        training=work.linear_training,
        methods={"erm": {}},
        audits={name: {"estimator": spelling} for name, spelling in work.linear_estimators.items()},
        seeds=work.seeds,
    )


def network_sections(setting: Setting, scale: Scale, starts: Mapping[str, str]) -> dict[str, Any]:
    """Return the study of a dataset's networks; `starts` holds files of initial weights by architecture."""
    work = _EFFORTS[scale]
    epochs = measured_epochs(setting)
    warm = {title(name) + PRETRAINED: {"model": f"arch:{name}", "weights": path} for name, path in starts.items()}
    return study_sections(
        title=f"Nanda 2021: networks on {setting.title}",
        data={"data": setting.name, **setting.data},
        groups=setting.partitions,
        models={**{title(name): {"model": f"arch:{name}"} for name in setting.scratch}, **warm},
        training=work.training,
        methods={"erm": {}},
        audits={
            name: {"estimator": spelling, "audit_epochs": list(epochs.get(name, (LAST,)))}
            for name, spelling in work.estimators.items()
        },
        seeds=work.seeds,
    )


def measured_epochs(setting: Setting) -> Mapping[str, Sequence[str]]:
    """Return the epochs after which each estimator measures the networks of a dataset; others, after the last."""
    smoothed = (FIRST, LAST) if setting.warm else (LAST,)
    return {DEEPFOOL: (FIRST, MIDDLE, LAST), CARLINI: (FIRST, MIDDLE, LAST), SMOOTHING: smoothed}


def title(architecture: str) -> str:
    """Return the display name of an architecture, which differs from its name in the catalog."""
    return TITLES.get(architecture, architecture.replace("_", " ").capitalize())


def _smoothing(noise: float, draws: int, pilot: int, planned: bool) -> str:
    return f"smoothing:sigma={noise},draws={draws},pilot={pilot},planned={str(planned).lower()}"


_CARLINI = "carlini_wagner:steps={},searches={}"
_PUBLISHED = {
    OLD_DEEPFOOL: "deepfool:published=true",
    OLD_CARLINI: "carlini_wagner:published=true,steps=100,searches=5",
}

_EFFORTS: Mapping[Scale, Effort] = {
    "smoke": Effort(
        (0, 1),
        {"epochs": 6, "rate": 0.1, "momentum": 0.9, "batch": 32},
        {"epochs": 4, "rate": 0.1, "momentum": 0.9, "batch": 32},
        {
            EXACT: "exact_linear",
            DEEPFOOL: "deepfool",
            CARLINI: _CARLINI.format(10, 2),
            SMOOTHING: _smoothing(NOISE, 40, 10, planned=True),
            OLD_DEEPFOOL: "deepfool:published=true,steps=20",
            OLD_CARLINI: "carlini_wagner:published=true,steps=10,searches=2",
        },
        {
            DEEPFOOL: "deepfool:rivals=3,steps=20",
            CARLINI: _CARLINI.format(8, 2),
            SMOOTHING: _smoothing(NOISE, 40, 10, planned=True),
            LESS_NOISE: _smoothing(LITTLE_NOISE, 10, 10, planned=False),
        },
    ),
    "laptop": Effort(
        (0, 1, 2),
        # Rate × steps is about that of the paper. The rate falls to 0, so that all seeds end at the only optimum.
        {"epochs": 10, "rate": 0.01, "momentum": 0.9, "batch": 64, "schedule": "cosine"},
        {"epochs": 8, "rate": 0.005, "momentum": 0.9, "batch": 28},
        {
            EXACT: "exact_linear",
            DEEPFOOL: "deepfool",
            CARLINI: _CARLINI.format(50, 4),
            SMOOTHING: _smoothing(NOISE, 300, 30, planned=True),
            **_PUBLISHED,
        },
        {
            DEEPFOOL: "deepfool:rivals=4",
            CARLINI: _CARLINI.format(25, 3),
            SMOOTHING: _smoothing(NOISE, 150, 25, planned=True),
            LESS_NOISE: _smoothing(LITTLE_NOISE, 10, 25, planned=False),
        },
    ),
    "paper": Effort(
        (0, 1, 2),
        {"settings_of": "nanda"},
        {"settings_of": "nanda"},
        {
            EXACT: "exact_linear",
            DEEPFOOL: "deepfool",
            CARLINI: _CARLINI.format(1000, 5),
            SMOOTHING: _smoothing(NOISE, 100_000, 100, planned=False),
            **_PUBLISHED,
        },
        {
            DEEPFOOL: "deepfool",
            CARLINI: _CARLINI.format(1000, 5),
            SMOOTHING: _smoothing(NOISE, 100_000, 100, planned=False),
            LESS_NOISE: _smoothing(LITTLE_NOISE, 10, 100, planned=False),
        },
    ),
}  # fmt: skip

_FACES = ("class", "race", "gender")
_NORMALISED = {"mean": _HALF, "std": _HALF}
_SMALL = ("lenet5", "small_cnn", "resnet8")
_SMALL_FACES = {**_NORMALISED, "size": 32}

_SETTINGS: Mapping[Scale, tuple[Setting, ...]] = {
    "smoke": (
        Setting(
            "digits", "digits", ("class", "ink"), ("ink",), linear={"per_group": 60, "audit_per_group": 15},
            data={"per_group": 60, "audit_per_group": 6}, scratch=("small_cnn", "logistic"), warm=("small_cnn",),
            source="digits",
        ),
    ),
    "laptop": (
        Setting(
            "cifar10", "CIFAR-10", median=0.40, linear={**_NORMALISED, "audit_per_group": 100},
            data={**_NORMALISED, "per_group": 800, "audit_per_group": 50}, scratch=_SMALL,
        ),
        Setting(
            "cifar100", "CIFAR-100", median=0.10, linear={**_NORMALISED, "audit_per_group": 20},
            data={**_NORMALISED, "per_group": 80, "audit_per_group": 10}, scratch=_SMALL,
        ),
        Setting(
            "cifar100-super", "CIFAR-100 superclasses", median=0.06, linear={**_NORMALISED, "audit_per_group": 50},
            data={**_NORMALISED, "per_group": 400, "audit_per_group": 25}, scratch=_SMALL,
        ),
        Setting(
            "utkface", "UTKFace", _FACES, ("race", "gender"), 0.12, linear=_SMALL_FACES,
            data={**_SMALL_FACES, "per_group": 1200, "audit_per_group": 150, "by": "race"}, scratch=_SMALL,
            warm=("lenet5", "small_cnn"), source="cifar10",
        ),
        Setting(
            "adience", "Adience", ("class", "gender"), ("gender",), 0.38, linear=_SMALL_FACES, data=_SMALL_FACES,
            scratch=_SMALL,
        ),
    ),
    "paper": (
        Setting(
            "cifar10", "CIFAR-10", median=0.40, linear=_NORMALISED, data=_NORMALISED,
            scratch=("deep_cnn", "pyramidnet110"), warm=_IMAGENET, source="imagenet",
        ),
        Setting(
            "cifar100", "CIFAR-100", median=0.10, linear=_NORMALISED, data=_NORMALISED,
            scratch=("deep_cnn_cifar100", "pyramidnet164"), warm=_IMAGENET, source="imagenet",
        ),
        Setting(
            "cifar100-super", "CIFAR-100 superclasses", median=0.06, linear=_NORMALISED, data=_NORMALISED,
            scratch=("deep_cnn_cifar100", "pyramidnet164"), warm=_IMAGENET, source="imagenet",
        ),
        Setting(
            "utkface", "UTKFace", _FACES, ("race", "gender"), 0.12, linear={"size": 200}, data={"size": 200},
            scratch=("utk_cnn",), warm=_IMAGENET, source="imagenet",
        ),
        Setting(
            "adience", "Adience", ("class", "gender"), ("gender",), 0.38, linear={"size": 224},
            data={"size": 224, "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]},
            scratch=("adience_cnn",), warm=_IMAGENET, source="imagenet",
        ),
    ),
}  # fmt: skip
