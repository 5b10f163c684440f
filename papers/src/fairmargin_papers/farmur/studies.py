"""Studies for FARMUR's claims at each scale: data, networks, three ways of training, and the printed table."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairmargin_papers.shared.paper import Scale
from fairmargin_papers.shared.trained import spelled, study_sections

NATURAL, ADVERSARIAL, FAIR = "natural", "adversarial", "FARMUR"
METHODS = (NATURAL, ADVERSARIAL, FAIR)
EQUATION_8 = "last_two_radii"
_RADIUS, _STEP = 0.031, 0.007  # printed for every dataset


@dataclass(frozen=True, slots=True)
class Printed:
    """A row of the paper's Table 1, with one number each for natural and adversarial training and for FARMUR."""

    accuracy: tuple[float, float, float]  # in %
    robustness: tuple[float, float, float]  # Rob(f)
    variance: tuple[float, float, float]  # V_f
    gain: str = ""  # by how many % FARMUR lowers V_f in the paper's text, if it says so


TABLE: Mapping[str, Printed] = {
    "lenet": Printed((99.08, 98.74, 98.91), (0.79, 1.26, 1.24), (0.014, 0.019, 0.009)),
    "alexnet": Printed((99.30, 99.41, 99.38), (1.47, 1.96, 1.95), (0.048, 0.070, 0.034), "29.17"),
    "cifar10": Printed((93.77, 93.58, 90.98), (0.18, 0.48, 0.45), (0.003, 0.02, 0.011), "15.39"),
    "utkface": Printed((66.70, 65.60, 65.66), (0.33, 1.34, 1.31), (0.007, 0.073, 0.059), "19.18"),
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One network on one dataset, trained in three ways."""

    row: str  # the row of the printed table for which it stands
    title: str
    partition: str  # attribute of the groups
    data: dict[str, Any]  # section of the study
    training: dict[str, Any]  # section of the study
    network: str  # architecture
    steps: int = 10  # of the attack of TRADES
    estimators: tuple[str, ...] = ("plumb:steps=12",)  # the first measures all rows, and others are compared with it
    since: float = 100 / 120  # share of the epochs after which FARMUR retrains
    beta: float = 6.0  # of TRADES; the paper does not print it
    instead: str = ""  # a sentence on what it stands for, if it is not the paper's
    seeds: int = 3  # number of seeds

    @property
    def estimator(self) -> str:
        """The estimator that measures all rows."""
        return self.estimators[0]

    @property
    def attack(self) -> dict[str, Any]:
        """Fields of the attack of TRADES and FARMUR; fewer steps than ten are longer."""
        return {"beta": self.beta, "radius": _RADIUS, "steps": self.steps, "step": max(_STEP / _RADIUS, 2 / self.steps)}

    @property
    def sections(self) -> dict[str, Any]:
        """Content of the study file."""
        return study_sections(
            data=self.data,
            groups=[self.partition],
            models={self.network: {"model": f"arch:{self.network}"}},
            training=self.training,
            methods={
                NATURAL: {"method": "erm"},
                ADVERSARIAL: {"method": spelled("trades", **self.attack)},
                FAIR: {"method": spelled("farmur", since=self.since, **self.attack)},
            },
            audits={"distances": {"estimator": list(self.estimators)}},
            seeds=range(self.seeds),
        )


def settings(scale: Scale) -> tuple[Setting, ...]:
    """Return all networks of a scale, in the order of the printed table.

    >>> [setting.title for setting in settings("laptop")]
    ['MNIST, lenet5', 'MNIST, small_alexnet', 'CIFAR-10, resnet8', 'UTKFace by race, small_cnn']
    """
    return {"smoke": _smoke, "laptop": _laptop, "paper": _paper}[scale]()


def _smoke() -> tuple[Setting, ...]:
    training = {"epochs": 4, "rate": 0.01, "optimizer": "adam", "batch": 32}
    by_class = {"data": "digits", "per_group": 20, "audit_per_group": 8}
    by_ink = {"data": "digits", "per_group": 70, "audit_per_group": 27, "by": "ink"}
    few, several = ("plumb:steps=12",), ("plumb:steps=12", "deepfool", "ddn:steps=20", EQUATION_8)
    return tuple(
        Setting(
            row, f"{words}, {network}", partition, data, training, network, steps=2, estimators=estimators,
            seeds=2,
            instead="Digits stand for all data: the verdict shows that it runs, and says nothing of the paper.",
        )
        for row, words, network, partition, data, estimators in (
            ("lenet", "digits", "logistic", "class", by_class, several),
            ("alexnet", "digits", "small_cnn", "class", by_class, few),
            ("cifar10", "digits again", "logistic", "class", by_class, few),
            ("utkface", "digits by ink", "logistic", "ink", by_ink, few),
        )
    )  # fmt: skip


def _laptop() -> tuple[Setting, ...]:
    plain = {"epochs": 12, "rate": 0.05, "batch": 64}
    # Eight layers without BatchNorm: with SGD, TRADES misclassifies a quarter of the digits after as many epochs.
    deep = {"epochs": 12, "rate": 0.001, "optimizer": "adam", "batch": 32}
    several = ("plumb:steps=12", "deepfool", "ddn:steps=50", EQUATION_8)
    few = several[:1]
    digits = {"data": "mnist", "audit_per_group": 150}
    objects = {"data": "cifar10", "audit_per_group": 150}
    faces = {"data": "utkface", "size": 32, "audit_per_group": 250, "by": "race"}
    return tuple(
        Setting(
            row, f"{words}, {network}", partition, {**data, "per_group": per_group}, training, network, steps=5,
            estimators=estimators, instead=instead, seeds=seeds,
        )
        for row, words, network, training, partition, data, per_group, estimators, seeds, instead in (
            ("lenet", "MNIST", "lenet5", plain, "class", digits, 500, several, 5, "5,000 of 60,000 training pictures."),
            ("alexnet", "MNIST", "small_alexnet", deep, "class", digits, 250, few, 5,
             "AlexNet's eight layers, a quarter as wide and without its large strides, trained by Adam with 2,500 of "
             "60,000 pictures."),
            ("cifar10", "CIFAR-10", "resnet8", plain, "class", objects, 200, few, 3,
             "ResNet-8 stands for ResNet-18, with 2,000 of 50,000 training pictures."),
            ("utkface", "UTKFace by race", "small_cnn", plain, "race", faces, 500, few, 3,
             "small_cnn stands for the UTK Classifier, with 2,500 training faces of 32 pixels, as many of each race."),
        )
    )  # fmt: skip


def _paper() -> tuple[Setting, ...]:
    training = {"settings_of": "mousavi"}
    several = (EQUATION_8, "plumb", "deepfool", "ddn:steps=100")
    faces = {"data": "utkface", "size": 200}
    return (
        Setting("lenet", "MNIST, LeNet-5", "class", {"data": "mnist"}, training, "lenet5", estimators=several),
        Setting(
            "alexnet", "MNIST, AlexNet", "class", {"data": "mnist", "size": 64}, training, "alexnet",
            estimators=several,
        ),
        Setting("cifar10", "CIFAR-10, ResNet-18", "class", {"data": "cifar10"}, training, "resnet18",
                estimators=several),
        Setting("utkface", "UTKFace by race, UTK Classifier", "race", faces, training, "utk_cnn", estimators=several),
    )  # fmt: skip
