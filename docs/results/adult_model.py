"""The model of docs/results/first-audits.md: incomes by logistic regression, from the training split of Adult."""

from pathlib import Path

from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fairmargin as fm

ROOT = Path(__file__).parents[3] / "shared" / "data"


def model() -> object:
    """Fitted in seconds; sex and race are no features."""
    train = fm.load("adult", root=ROOT, split="train")
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(train.x, train.y)
