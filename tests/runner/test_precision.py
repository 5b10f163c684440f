"""An audit to a precision of a model and samples: its measurements, what it stores, and its sentences."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.domain import Domain
from fairmargin.core.partition import Partition
from fairmargin.distances.exact_linear import ExactLinear
from fairmargin.distances.measure import measure
from fairmargin.distances.proxies.first_order import FirstOrder
from fairmargin.distances.searches.ddn import DDN
from fairmargin.distances.verified import Verified
from fairmargin.models.as_classifier import as_classifier
from fairmargin.runner import precision
from fairmargin.runner.costs import passes_of
from fairmargin.runner.precision import PrecisionPlan, audit_to_precision
from tests.oracles import sigma


@pytest.fixture(scope="module")
def problem():
    """Return a small non-linear network with samples of two classes in three groups, some of them misclassified."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
    x = np.random.default_rng(0).normal(size=(900, 4)).astype(np.float32)
    with torch.no_grad():
        net[-1].bias[0] -= (net(torch.as_tensor(x)) @ torch.tensor([1.0, -1.0])).median()  # as many of either class
        y = net(torch.as_tensor(x)).argmax(dim=1).numpy()
    y = np.where(np.arange(900) % 12 == 0, 1 - y, y)
    group = Partition.by("third", np.where(x[:, 0] < -0.4, "low", np.where(x[:, 0] < 0.4, "middle", "high")))
    return as_classifier(net, domain=Domain()), x, y, group


ASKED = PrecisionPlan(precision=0.2, reference=DDN(steps=12), up_to=2.0)
PRECISE = PrecisionPlan(precision=0.03, reference=DDN(steps=12), target="these samples", up_to=2.0)


@pytest.fixture(scope="module")
def found(problem):
    return audit_to_precision(*problem, ASKED)


def test_sigma_lies_near_that_of_the_reference_on_all(problem, found):
    net, x, y, group = problem
    full = measure(net, x, y, DDN(steps=12))
    for label, value in sigma(full, group, up_to=2.0).items():
        estimate = found[label].sigma
        assert estimate.low - 0.1 < value < estimate.high + 0.1
        assert estimate.value == pytest.approx(value, abs=0.25)


def test_it_measures_a_part_and_says_what_it_saved(found):
    assert found.met
    assert all(not row.unmet for row in found)
    assert sum(row.reference_samples for row in found) < 800
    assert all(row.looked_at >= 250 for row in found)
    assert found.spent < found.full_cost
    text = str(found)
    assert "for the population" in text
    assert "the compute of a plain random part" in text
    frame = found.to_frame()
    assert list(frame["group"]) == ["high", "low", "middle"]
    assert {"sigma_low", "sigma_alone_low", "unmet", "reference_samples", "plain_samples", "correlation", "met"} <= set(
        frame
    )


def test_another_order_of_the_samples_finds_the_same(problem, found):
    net, x, y, group = problem
    order = np.random.default_rng(1).permutation(len(x))
    again = audit_to_precision(net, x[order], y[order], group.take(order), ASKED)
    assert again.to_frame().round(9).equals(found.to_frame().round(9))


def test_a_second_run_with_a_store_asks_the_model_nothing_more(problem, found, tmp_path, monkeypatch):
    kept = audit_to_precision(*problem, ASKED, store=tmp_path / "store")
    assert kept.to_frame().round(9).equals(found.to_frame().round(9))

    def never(*_, **__):
        raise AssertionError("measured again")

    monkeypatch.setattr(DDN, "__call__", never)
    monkeypatch.setattr(FirstOrder, "__call__", never)
    assert audit_to_precision(*problem, ASKED, store=tmp_path / "store") == kept


def test_an_interrupted_audit_keeps_what_was_measured(problem, tmp_path, monkeypatch):
    calls, plain = [], DDN.__call__

    def counted(self, *arguments, **named):
        calls.append(1)
        if len(calls) == 3:  # after the trial of costs and the pilot
            raise KeyboardInterrupt
        return plain(self, *arguments, **named)

    whole = audit_to_precision(*problem, PRECISE)
    monkeypatch.setattr(DDN, "__call__", counted)
    with pytest.raises(KeyboardInterrupt):
        audit_to_precision(*problem, PRECISE, store=tmp_path / "store")
    calls[:] = [1] * 3
    again = audit_to_precision(*problem, PRECISE, store=tmp_path / "store")
    after = len(calls) - 3
    calls[:] = [1] * 3
    audit_to_precision(*problem, PRECISE, store=tmp_path / "another")
    assert after == len(calls) - 3 - 2
    assert again.to_frame().round(9).equals(whole.to_frame().round(9))


def test_damaged_costs_are_tried_again(problem, found, tmp_path):
    audit_to_precision(*problem, ASKED, store=tmp_path / "store")
    (tmp_path / "store" / "costs.json").write_text("[1, 2")
    again = audit_to_precision(*problem, ASKED, store=tmp_path / "store")
    assert again.spent == found.spent
    assert len(json.loads((tmp_path / "store" / "costs.json").read_text())) == 2


def test_progress_is_told(problem):
    told = []
    audit_to_precision(*problem, ASKED, progress=lambda *what: told.append(what))
    assert ("measuring ddn:steps=12") in {what for what, _, _ in told}
    assert all(done <= total for _, done, total in told)


def test_the_cheap_estimator_helps_where_many_samples_are_needed(problem):
    found = audit_to_precision(*problem, PRECISE)
    assert found.cheap == "first_order"
    assert found.met


def test_groups_whose_far_samples_cannot_be_known_are_not_precise_and_the_reason_is_said(problem):
    net, x, y, _ = problem
    small = Partition.by("small", np.where(np.arange(900) < 60, "few", "many"))
    found = audit_to_precision(net, x, y, small, PrecisionPlan(precision=0.9, reference=DDN(steps=12), up_to=2.0))
    assert found["many"].met
    assert not found["few"].met
    assert "fewer than 250 samples" in found["few"].unmet
    assert found["few"].sigma_alone.high - found["few"].sigma_alone.low < 1.8  # it is as short as asked all the same
    assert any(note.startswith("few: not to ±0.9") and "fewer than 250" in note for note in found.notes)


def test_too_few_samples_in_all_have_no_interval_and_no_verdict(problem):
    net, x, y, _ = problem
    halves = Partition.by("half", ["a", "b"] * 80)
    found = audit_to_precision(net, x[:160], y[:160], halves, ASKED)
    for row in found:
        assert (row.verdict, row.met) == ("not comparable", False)
        assert np.isnan([row.sigma.low, row.sigma_alone.high, row.robustness.low, row.p]).all()
        assert "there are 160 samples, and 250 are needed" in found.finding(row)
    these = audit_to_precision(net, x[:160], y[:160], halves, PrecisionPlan(0.2, DDN(steps=12), target="samples"))
    assert these.met


def test_these_samples_need_fewer_than_the_population(problem):
    plan = PrecisionPlan(precision=0.1, reference=DDN(steps=12), target="these samples")
    these = audit_to_precision(*problem, plan)
    population = audit_to_precision(*problem, PrecisionPlan(precision=0.1, reference=DDN(steps=12)))
    assert these.met
    assert not population.met
    assert "not to ±0.1; reached ±0.1" in str(population)
    assert these.spent < population.spent


def test_one_group_is_measured_to_a_relative_precision(problem):
    net, x, y, _ = problem
    found = audit_to_precision(net, x, y, Partition.by("all", ["all"] * 900), ASKED)
    row = found["all"]
    assert row.met
    assert (row.robustness.high - row.robustness.low) / 2 <= 0.2 * row.robustness.value
    assert "no sample outside" in row.sigma.reason


def test_a_group_that_is_never_right_has_robustness_0(problem):
    net, x, y, _ = problem
    right = np.arange(900) % 12 != 0
    found = audit_to_precision(net, x, y, Partition.by("right", right), ASKED)
    assert found["False"].robustness.value == 0
    assert "distance above 0" in found["False"].robustness.reason
    assert found["True"].robustness.value > 0


def test_passes_are_counted_the_same_each_time(problem):
    net, x, y, _ = problem
    cheap, dear = (passes_of(net, e, x[:64], y[:64].astype(np.int64), 0) for e in (FirstOrder(), DDN(steps=12)))
    assert 2 <= cheap <= 4
    assert 24 <= dear <= 40
    assert passes_of(net, DDN(steps=12), x[:64], y[:64].astype(np.int64), 0) == dear


def test_an_exact_reference_goes_without_a_cheap_one():
    x = np.random.default_rng(0).normal(size=(300, 2))
    y = (x @ [3, 4] > 0).astype(int)
    found = audit_to_precision(([3.0, 4.0], 0.0), x, y, Partition.by("sex", ["F", "M", "M"] * 100),
                               PrecisionPlan(precision=0.25, reference=ExactLinear()))  # fmt: skip
    assert found.cheap == ""
    assert found.bound.value == "exact"
    assert sum(row.reference_samples for row in found) <= 300


def test_verified_distances_can_be_the_reference(problem):
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    _, x, _, group = problem
    model = as_classifier(net, domain=Domain())
    found = audit_to_precision(
        model, x, model.predict(x), group, PrecisionPlan(precision=0.5, reference=Verified(steps=4))
    )
    assert found.bound is Bound.LOWER
    assert found.cheap == ""


def test_what_was_missed_by_a_hair_does_not_read_as_met(problem):
    population = audit_to_precision(*problem, PrecisionPlan(precision=0.1, reference=DDN(steps=12)))
    (note,) = (note for note in population.notes if "reached" in note)
    reached = float(note.split("reached ±")[1].split(". ")[0])
    assert reached > 0.1
    assert reached >= max((row.sigma_alone.high - row.sigma_alone.low) / 2 for row in population if not row.met)


def test_the_command_lines_word_for_these_samples_is_understood():
    assert PrecisionPlan(target="samples") == PrecisionPlan(target="these samples")


def test_one_short_search_among_the_references_leaves_nothing_to_compare(problem, monkeypatch):
    real = precision.measure_shard

    def short(model, estimator, x, y, seed):
        found = real(model, estimator, x, y, seed)
        if not isinstance(estimator, DDN):
            return found
        farthest = found.correct & (found.values == found.values.max())
        values, tried = np.where(farthest, np.inf, found.values), np.where(farthest, 0.01, 0.0)
        return Distances(values, found.correct, found.bound, found.norm, found.subject, tried)

    monkeypatch.setattr(precision, "measure_shard", short)
    result = audit_to_precision(*problem, replace(ASKED, up_to=np.inf))
    assert result.up_to == 0.01
    assert "up to a radius of 0.01" in str(result)
    for row in result:
        assert (row.verdict, row.met, row.sigma.is_defined) == ("not comparable", False, False)
        assert "the cap of 0.01" in result.finding(row)
    assert "3 of 3 groups cannot be compared" in result.notes[0]
