"""What a run measures depends on the study alone: the same references and sums in any engine, order and restart."""

import numpy as np
import pytest
from torch import nn

from fairmargin.data.dataset import Dataset
from fairmargin.distances.combine import tightest
from fairmargin.distances.deepfool import DeepFool
from fairmargin.distances.exact_linear import ExactLinear
from fairmargin.distances.smoothing import Smoothing
from fairmargin.distances.verified import Verified
from fairmargin.engine.local import Processes, Serial
from fairmargin.errors import InputError
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier
from fairmargin.models.search_copy import ORIGINAL, SearchCopy
from fairmargin.studies.measuring import plan_tasks
from fairmargin.studies.study import Study
from fairmargin.studies.workflow import run

# Class 1 where the first feature exceeds 0.999, said without any slope: no search by gradients finds it, and of 64
# points of noise over the domain none lies there. Of the samples some do.
NET = """
import torch

class Cliff(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)

    def forward(self, x):
        lead = torch.where(x[:, :1] > 0.999, -1.0, 1.0) + 0 * self.layer(x)[:, :1]
        return torch.cat([lead, torch.zeros_like(lead)], dim=1)

def make():
    torch.manual_seed(0)
    return Cliff()
"""


@pytest.fixture
def study(tmp_path):
    (tmp_path / "net.py").write_text(NET)
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 0.9, size=(300, 2)).astype(np.float32)
    x[::7, 0] = 1.0
    np.savez(tmp_path / "data.npz", x=x, y=(x[:, 0] > 0.999).astype(int))
    return Study(
        model=f"{tmp_path}/net.py:make", data=str(tmp_path / "data.npz"), bounds=(0, 1), estimators=("deepfool",),
        resamples=200,
    )  # fmt: skip


def values(finished, number=0):
    folder = finished.folder
    return folder.distances(folder.read_manifest().measurements[number]).values


def test_a_run_falls_back_on_samples_of_its_own_in_any_engine_and_after_a_restart(study, tmp_path):
    one = run(study, tmp_path / "one", Serial())
    assert np.isfinite(values(one)).all()
    manifest = one.folder.read_manifest()
    assert len(manifest.references) == 64
    two = run(study, tmp_path / "two", Processes(workers=2))
    np.testing.assert_array_equal(values(two), values(one))
    assert two.folder.read_manifest().references == manifest.references
    assert two.folder.read_manifest().measurements == manifest.measurements
    before = values(one)
    next((tmp_path / "one").glob("shards/*/*.parquet")).unlink()
    again = run(study, tmp_path / "one", Serial())
    assert (again.measured, again.reused) == (1, 2)
    np.testing.assert_array_equal(values(again), before)


def test_the_order_of_the_samples_changes_neither_references_nor_distances(study, tmp_path):
    first = run(study, tmp_path / "first", Serial())
    with np.load(tmp_path / "data.npz") as held:
        np.savez(tmp_path / "turned.npz", x=held["x"][::-1], y=held["y"][::-1])
    turned = run(study.model_copy(update={"data": str(tmp_path / "turned.npz")}), tmp_path / "turned", Serial())
    assert turned.folder.read_manifest().references == first.folder.read_manifest().references
    np.testing.assert_array_equal(values(turned)[::-1], values(first))


def test_keys_tell_references_apart_only_for_estimators_that_search_by_gradients():
    model = LinearClassifier([[0.0, 0.0], [3.0, 4.0]], [0.0, -5.0])
    dataset = Dataset(np.eye(2), [0, 0])
    several = [None, np.array([[5.0, 5.0]]), np.array([[6.0, 6.0]])]

    def keys(estimator):
        return {
            task.key for r in several for task in plan_tasks(model, dataset, np.zeros(2, np.int64), estimator, 0, r)
        }

    assert len(keys(DeepFool())) == 3
    assert len(keys(ExactLinear())) == 1


def test_keys_say_what_changes_last_bits_and_only_where_gradients_are_followed():
    dataset = Dataset(np.zeros((2, 3, 4, 4), np.float32), [0, 0])
    parts = [nn.Conv2d(3, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 2)]

    def keys(estimator, copy=None):
        model = as_classifier(nn.Sequential(*parts))
        if copy is not None:
            model._copies[3, 4, 4] = copy
        return {task.key for task in plan_tasks(model, dataset, np.zeros(2, np.int64), estimator, 0)}

    both = SearchCopy(fold=True, channels_last=True)
    ways = (ORIGINAL, SearchCopy(fold=True), SearchCopy(channels_last=True), both)
    assert len(set.union(*(keys(DeepFool(), way) for way in ways))) == 4
    assert keys(DeepFool()) == keys(DeepFool(), both)
    for estimator in (Smoothing(), Verified()):
        assert len(set.union(*(keys(estimator, way) for way in ways))) == 1


def test_no_references_are_recorded_where_nothing_searches_by_gradients(tmp_path):
    np.savez(tmp_path / "model.npz", weight=[[3.0, 4.0]], bias=[-5.0])
    x = np.random.default_rng(0).normal(1, 1, size=(80, 2))
    np.savez(tmp_path / "data.npz", x=x, y=(x @ [3, 4] > 5).astype(int))
    linear = Study(model=str(tmp_path / "model.npz"), data=str(tmp_path / "data.npz"), resamples=200)
    assert run(linear, tmp_path / "run", Serial()).folder.read_manifest().references == ""


def test_of_estimators_joined_by_plus_each_is_measured_once_and_the_best_is_audited(study, tmp_path):
    weak = "deepfool:published=true,steps=1"
    asked = study.model_copy(update={"estimators": ("deepfool", f"deepfool+{weak}", weak), "up_to": 5.0})
    finished = run(asked, tmp_path / "run", Serial())
    assert (finished.measured, finished.reused) == (6, 6)  # 300 samples are three shards of 128
    best, both, poor = (finished.folder.distances(m) for m in finished.folder.read_manifest().measurements)
    assert np.isinf(poor.values).any()
    np.testing.assert_array_equal(both.values, tightest(best, poor).values)
    assert [audit.estimator for audit in finished.audits] == ["deepfool", f"deepfool+{weak}", weak]
    again = run(asked, tmp_path / "run", Serial())
    assert again.measured == 0
    swapped = study.model_copy(update={"estimators": (f"{weak}+deepfool",)})
    turned = run(swapped, tmp_path / "run", Serial())
    assert turned.measured == 0
    np.testing.assert_array_equal(values(turned), both.values)


def test_a_sum_with_a_proxy_is_refused(study, tmp_path):
    asked = study.model_copy(update={"estimators": ("deepfool+first_order",)})
    with pytest.raises(InputError, match="`first_order` is a proxy, which bounds the distance on neither side"):
        run(asked, tmp_path / "run", Serial())
