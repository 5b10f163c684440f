"""The demonstration: a linear model and a small network of handwritten digits, on data that come with scikit-learn."""

from pathlib import Path
from typing import TYPE_CHECKING

from fairmargin.data.sets.digits import load_digits_dataset
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier
from fairmargin.models.loading import save_linear
from fairmargin.store.atomic import atomic_write_bytes
from fairmargin.store.folder import Store
from fairmargin.study.options import AuditOptions, DataOptions, GroupOptions, ModelOptions
from fairmargin.study.study import Study

if TYPE_CHECKING:
    from torch import nn

_EPOCHS, _BATCH, _RATE = 20, 64, 3e-3


def train_digits() -> LinearClassifier:
    """Multinomial logistic regression on the training split; fitted in about a second, always the same."""
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    dataset = load_digits_dataset("train")
    with threadpool_limits(1):  # so small a problem is slower on several threads, and on a busy machine far slower
        fitted = LogisticRegression(max_iter=1_000, C=1.0).fit(dataset.x, dataset.y)
    model = as_classifier(fitted, domain=dataset.domain)
    assert isinstance(model, LinearClassifier)
    return model


def demo_study(folder: Path) -> Study:
    """Train and save the model, and return the study that audits it."""
    Store.open(folder, create=True)  # raises an error if the folder cannot be used
    path = folder / "model.npz"
    save_linear(train_digits(), path)
    return Study(
        model=ModelOptions(model=str(path)),
        data=DataOptions(data="digits", split="test"),
        groups=GroupOptions(group=("digit", "ink")),
        audit=AuditOptions(estimator=("exact_linear:norm=l2", "exact_linear:norm=linf")),
        title="Is a linear reader of handwritten digits equally hard to fool for every digit?",
    )


def train_network() -> "nn.Module":
    """Return a small convolutional network fitted to the training split; on one machine always the same."""
    import torch

    from fairmargin.models.architectures.catalog import build_architecture
    from fairmargin.training.loop.reproducibility import threads

    dataset = load_digits_dataset("train")
    x, y = torch.tensor(dataset.x, dtype=torch.float32), torch.tensor(dataset.y)
    with torch.random.fork_rng(devices=[]), threads(1):  # so small a network is slower on several
        torch.manual_seed(0)
        network = build_architecture("small_cnn", tuple(x.shape[1:]), 10)
        optimizer = torch.optim.Adam(network.parameters(), lr=_RATE)
        for _ in range(_EPOCHS):
            for batch in torch.split(torch.randperm(len(x)), _BATCH):
                loss = torch.nn.functional.cross_entropy(network(x[batch]), y[batch])
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
    return network


def network_study(folder: Path) -> Study:
    """Train and save the network, unless an earlier demo did, and return the study that audits it."""
    from safetensors.torch import save

    Store.open(folder, create=True)
    path = folder / "network.safetensors"
    if not path.is_file():
        atomic_write_bytes(path, save(train_network().state_dict()))
    return Study(
        model=ModelOptions(model="arch:small_cnn", weights=str(path)),
        data=DataOptions(data="digits", split="test"),
        groups=GroupOptions(group=("digit", "ink")),
        audit=AuditOptions(estimator=("plumb:norm=l2", "first_order:norm=l2"), adequacy=True),
        title="Is a small neural network equally hard to fool for every digit?",
    )
