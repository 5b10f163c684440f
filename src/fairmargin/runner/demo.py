"""The demonstration: a linear model and a small network of handwritten digits, and boosted trees on a table."""

from pathlib import Path
from typing import TYPE_CHECKING

from fairmargin.data.sets.applicants import make_applicants
from fairmargin.data.sets.digits import load_digits_dataset
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier
from fairmargin.models.loading import save_linear
from fairmargin.store.atomic import atomic_write_bytes
from fairmargin.store.folder import Store
from fairmargin.study.options import AuditOptions, DataOptions, GroupOptions, ModelOptions
from fairmargin.study.study import Study

if TYPE_CHECKING:
    import pandas as pd
    from torch import nn

_EPOCHS, _BATCH, _RATE = 20, 64, 3e-3
_TREES, _DEPTH = 30, 3
_ROWS, _TRAINED = 1_000, 700  # of the table; the rows that were not trained on are audited
_LABEL = "granted"


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


def train_trees(table: "pd.DataFrame") -> object:
    """Return boosted trees with their preprocessing, as people write it, fitted to raw rows; always the same."""
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.ensemble import GradientBoostingClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    rows = table.drop(columns=_LABEL)
    columns = make_column_transformer(
        (SimpleImputer(strategy="median"), make_column_selector(dtype_include="number")),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
    )
    trees = GradientBoostingClassifier(n_estimators=_TREES, max_depth=_DEPTH, random_state=0)
    return make_pipeline(columns, trees).fit(rows, table[_LABEL])


def table_study(folder: Path) -> Study:
    """Write a synthetic table and boosted trees fitted to a part of it, and return the study that audits them."""
    import io

    import joblib

    Store.open(folder, create=True)
    table, content = make_applicants(_ROWS), io.BytesIO()
    trained, audited = table[:_TRAINED], table[_TRAINED:]
    joblib.dump(train_trees(trained), content)
    atomic_write_bytes(folder / "model.joblib", content.getvalue())
    for name, rows in (("train.csv", trained), ("people.csv", audited)):
        atomic_write_bytes(folder / name, rows.to_csv(index=False).encode())
    return Study(
        model=ModelOptions(model=str(folder / "model.joblib"), trust_model=True),
        data=DataOptions(
            data=str(folder / "people.csv"),
            label=_LABEL,
            training_data=str(folder / "train.csv"),
            columns={"income": {"label": "$"}, "savings": {"label": "$"}, "age": {"immutable": True}},
        ),
        groups=GroupOptions(group=("sex", "age"), bins=(("age", (30, 45, 60)),)),
        audit=AuditOptions(),
        title="Is a model that grants loans equally hard to fool for everyone?",
    )
