"""Studies for AdvERM's claims at each scale: data, networks, groups and the weight of the regulariser."""

from dataclasses import dataclass
from typing import Any

from fairmargin_papers.shared.paper import Scale
from fairmargin_papers.shared.trained import spelled, study_sections

PLAIN = "plain"
ESTIMATORS = {"smoke": "plumb:steps=12", "laptop": "plumb:steps=12", "paper": "deepfool"}


@dataclass(frozen=True, slots=True)
class Target:
    """A group that AdvERM protects."""

    role: str  # the group of the paper that it stands for: "truck", "cat" or "Black"
    group: str  # its name in the data
    weight: float  # α

    @property
    def method(self) -> str:
        """Name of the training method in the study."""
        return f"{self.role}, α = {self.weight:g}"


@dataclass(frozen=True, slots=True)
class Setting:
    """One network on one dataset, trained plainly and with AdvERM for each target."""

    folder: str  # name of the folder of the study
    title: str
    faces: bool  # whether it stands for UTKFace, else for CIFAR-10
    partition: str  # attribute of the groups
    radius: float  # τ, an L2 length in pixels between 0 and 1
    targets: tuple[Target, ...]
    data: dict[str, Any]  # section of the study
    training: dict[str, Any]  # section of the study
    network: str  # architecture
    estimator: str
    instead: str = ""  # a sentence on what it stands for, if it is not the paper's
    seeds: int = 3  # number of seeds
    pretrained: bool = False  # whether the network starts with ImageNet weights

    @property
    def sections(self) -> dict[str, Any]:
        """Content of the study file."""
        return self.started("")

    def started(self, weights: str) -> dict[str, Any]:
        """Return the study with networks that start with a file of weights, if one is given."""
        adverm = {
            target.method: {"method": spelled("adverm", group=target.group, weight=target.weight, radius=self.radius)}
            for target in self.targets
        }
        return study_sections(
            data=self.data,
            groups=[self.partition],
            models={self.network: {"model": f"arch:{self.network}", "weights": weights}},
            training=self.training,
            methods={PLAIN: {"method": "erm"}, **adverm},
            audits={"distances": {"estimator": self.estimator}},
            seeds=range(self.seeds),
        )


def settings(scale: Scale) -> tuple[Setting, ...]:
    """Return all networks of a scale.

    The radius τ is near the median distance of plainly trained networks on the same data, where the regulariser's
    sigmoid is steepest. It was fixed before any network was trained with AdvERM.

    >>> [setting.title for setting in settings("laptop")][:2]
    ['CIFAR-10, small_cnn', 'CIFAR-10, resnet8']
    """
    return {"smoke": _smoke, "laptop": _laptop, "paper": _paper}[scale]()


def _smoke() -> tuple[Setting, ...]:
    training = {"epochs": 5, "rate": 0.005, "optimizer": "adam", "batch": 32, "schedule": "cosine"}
    objects = {"data": "digits", "per_group": 30, "audit_per_group": 8}
    inked = {"data": "digits", "per_group": 100, "audit_per_group": 27, "by": "ink"}
    truck, cat, black = Target("truck", "0", 0.1), Target("cat", "8", 0.1), Target("Black", "heavy", 0.1)
    return tuple(
        Setting(
            f"{partition}-{network}", f"{words}, {network}", faces, partition, 0.5, targets, data, training, network,
            ESTIMATORS["smoke"], seeds=2,
            instead="Digits stand for pictures: the verdict shows that it runs, and says nothing of the paper.",
        )
        for words, network, faces, partition, targets, data in (
            ("digits", "small_cnn", False, "class", (truck,), objects),
            ("digits", "logistic", False, "class", (truck, cat), objects),
            ("digits by ink", "logistic", True, "ink", (black,), inked),
        )
    )  # fmt: skip


def _laptop() -> tuple[Setting, ...]:
    # Adam: with SGD at the rates of plain training the regulariser's steep slopes keep these networks from learning.
    training = {"rate": 0.001, "optimizer": "adam", "batch": 64, "schedule": "cosine"}
    truck, cat, black = Target("truck", "truck", 0.1), Target("cat", "cat", 0.1), Target("Black", "Black", 0.1)
    found = []
    for network, per_group, epochs, targets, paper in (
        ("small_cnn", 500, 15, (truck, cat, Target("truck", "truck", 1.0)), "Deep CNN"),
        ("resnet8", 250, 10, (truck,), "ResNet-50"),
    ):
        data = {"data": "cifar10", "per_group": per_group, "audit_per_group": 200}
        found.append(
            Setting(
                f"cifar10-{network}", f"CIFAR-10, {network}", False, "class", 0.3, targets, data,
                {**training, "epochs": epochs}, network, ESTIMATORS["laptop"],
                f"{network} stands for the {paper}, with {10 * per_group:,} of 50,000 training pictures.", seeds=5,
            )
        )  # fmt: skip
    for network, epochs, paper in (("small_cnn", 15, "UTK Classifier"), ("resnet8", 8, "ResNet-50")):
        data = {"data": "utkface", "size": 32, "per_group": 400, "audit_per_group": 200, "by": "race"}
        found.append(
            Setting(
                f"utkface-{network}", f"UTKFace, {network}", True, "race", 0.3, (black,), data,
                {**training, "epochs": epochs}, network, ESTIMATORS["laptop"],
                f"{network} stands for the {paper}, with 2,000 training faces of 32 pixels, as many of each race.",
                seeds=5,
            )
        )  # fmt: skip
    return tuple(found)


def _paper() -> tuple[Setting, ...]:
    """Return the printed settings; the printed τ of CIFAR-10 is of inputs divided by 0.5, and halved here."""
    training = {"settings_of": "nanda"}
    half = (0.5, 0.5, 0.5)
    objects = {"data": "cifar10", "mean": half, "std": half}
    faces = {"data": "utkface", "size": 200}
    truck, cat, black = (
        tuple(Target(group, group, weight) for weight in (0.1, 1.0, 10.0)) for group in ("truck", "cat", "Black")
    )
    found = []
    for network in ("deep_cnn", "resnet18_imagenet", "vgg19_bn"):
        found.append(
            Setting(
                f"cifar10-{network}", f"CIFAR-10, {network}", False, "class", 0.5, (*truck, *cat), objects, training,
                network, ESTIMATORS["paper"], pretrained=network != "deep_cnn",
            )
        )  # fmt: skip
    for network in ("utk_cnn", "resnet18_imagenet", "vgg19_bn"):
        found.append(
            Setting(
                f"utkface-{network}", f"UTKFace, {network}", True, "race", 1.0, black, faces, training, network,
                ESTIMATORS["paper"], pretrained=network != "utk_cnn",
            )
        )  # fmt: skip
    return tuple(found)
