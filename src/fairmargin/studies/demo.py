"""The demonstration: a linear model of handwritten digits, audited exactly, on data that come with scikit-learn."""

from pathlib import Path

from fairmargin.data.digits import load_digits_dataset
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier
from fairmargin.models.loading import save_linear
from fairmargin.store.folder import Store
from fairmargin.studies.study import Study


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
    """Trains and saves the model, and says what to audit."""
    Store.open(folder, create=True)  # says in a sentence if that cannot be
    path = folder / "model.npz"
    save_linear(train_digits(), path)
    return Study(
        model=str(path),
        data="digits",
        split="test",
        estimators=("exact_linear:norm=l2", "exact_linear:norm=linf"),
        groups=("digit", "ink"),
        title="Is a linear reader of handwritten digits equally hard to fool for every digit?",
    )
