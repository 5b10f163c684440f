"""Weights of samples from a column of a table, in runs, their checks and comparisons."""

import numpy as np
import pandas as pd
import pytest

import fairmargin as fm
from fairmargin.core.codec import encode
from fairmargin.engine.local import Serial
from fairmargin.errors import InputError
from fairmargin.inference.settings import AuditSettings
from fairmargin.runner.run import run
from fairmargin.study import check
from fairmargin.study.check import checked
from fairmargin.study.comparison import compare_runs
from fairmargin.study.options import AuditOptions, GroupOptions, ImportOptions
from fairmargin.study.run_folder import RunFolder
from fairmargin.study.study import Study

QUICK = {"resamples": 200}


@pytest.fixture
def table(tmp_path):
    """Return a file of distances, whose samples have ids, weights, classes and persons, and its content."""
    rng, size = np.random.default_rng(0), 200
    sex = rng.choice(["F", "M"], size)
    frame = pd.DataFrame(
        {
            "id": np.arange(size),
            "distance": rng.gamma(2, 1, size) * np.where(sex == "M", 1.5, 1) * (rng.random(size) < 0.9),
            "sex": sex,
            "weight": rng.integers(0, 4, size) * np.where(sex == "M", 0.3, 1.0),
            "kind": rng.choice(["a", "b"], size),
            "person": rng.integers(0, 120, size),
        }
    )
    frame.to_csv(tmp_path / "table.csv", index=False)
    return tmp_path / "table.csv", frame


def audited(path, out, **groups):
    """Audit a file of distances with weights into a run folder, and return the folder and the audit."""
    study = Study(
        imported=ImportOptions(distances=str(path), id="id", bound="exact"),
        groups=GroupOptions(group="sex", sample_weight="weight", **groups),
        audit=AuditOptions(norm="l2", **QUICK),
    )
    folder = RunFolder(out)
    record, _ = run(study, folder, Serial())
    return folder, record["sex"]


@pytest.mark.parametrize("cheap", [True, False])
@pytest.mark.parametrize("groups", [{}, {"control": "kind", "cluster": "person"}])
def test_a_run_keeps_its_weights_and_its_results_follow_from_them(table, tmp_path, groups, cheap, monkeypatch):
    path, frame = table
    folder, found = audited(path, tmp_path / "run", **groups)
    distances = fm.Distances(frame["distance"], frame["distance"] > 0, "exact", "l2")
    how = AuditSettings(
        **QUICK,
        sample_weight=frame["weight"],
        control=fm.Partition.by("kind", frame["kind"]) if groups else None,
        cluster=frame["person"] if groups else None,
    )
    expected = fm.audit(distances, fm.Partition.by("sex", frame["sex"]), how)
    assert encode(found.groups) == encode(expected.groups)
    assert "weights" in " ".join(found.notes())
    monkeypatch.setattr(check, "_CHEAP", 30_000 if cheap else 0)
    assert encode(checked(folder)["sex"].groups) == encode(expected.groups)


def test_runs_are_compared_with_their_weights_whatever_the_order_of_rows(table, tmp_path):
    path, frame = table
    after = frame.assign(distance=frame["distance"] * (1.1 + 0.2 * np.sin(frame["distance"])))
    after.sample(frac=1, random_state=0).to_csv(tmp_path / "after.csv", index=False)
    folders = [audited(each, tmp_path / out)[0] for each, out in ((path, "old"), (tmp_path / "after.csv", "new"))]
    ((_, found),) = compare_runs(*((folder, folder.read()) for folder in folders))
    distances = [fm.Distances(each["distance"], each["distance"] > 0, "exact", "l2") for each in (frame, after)]
    how = AuditSettings(**QUICK, sample_weight=frame["weight"])
    expected = fm.compare(*distances, fm.Partition.by("sex", frame["sex"]), how)
    assert encode(found.groups) == encode(expected.groups)


def test_runs_with_other_weights_are_not_compared(table, tmp_path):
    path, frame = table
    frame.assign(weight=frame["weight"] + frame["distance"]).to_csv(tmp_path / "other.csv", index=False)
    folders = [audited(each, tmp_path / out)[0] for each, out in ((path, "old"), (tmp_path / "other.csv", "new"))]
    with pytest.raises(InputError, match="The weights of the samples differ between"):
        compare_runs(*((folder, folder.read()) for folder in folders))


def test_weights_of_an_audited_model_are_numbers_or_a_column_of_its_samples(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(150, 2)), columns=["a", "b"]).assign(weight=rng.integers(0, 3, 150))
    y, sex = (frame["a"] > 0).astype(int), pd.Series(rng.choice(["F", "M"], 150), name="sex")
    model, how = ([1.0, 0.0], 0.0), AuditSettings(**QUICK)
    x, weights = frame[["a", "b"]], frame["weight"].to_numpy()
    records = [
        fm.audit_model(model, x, y, groups=sex, settings=how, sample_weight=weights, out=tmp_path / "run"),
        fm.audit_model(model, frame, y, groups=sex, settings=how, sample_weight="weight"),
        fm.audit_model(model, x, y, groups=sex, settings=how.model_copy(update={"sample_weight": weights})),
    ]
    first, *others = (encode(record["sex"].groups) for record in records)
    assert others == [first, first]
    assert sum(row.size for row in records[0]["sex"]) == (weights > 0).sum()
    assert encode(checked(RunFolder(tmp_path / "run"))["sex"].groups) == first
