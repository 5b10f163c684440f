"""What a training says though nothing is forbidden, and how its result introduces itself."""

import math

import torch

from fairmargin.training.catalog import parse_method
from fairmargin.training.methods.plain import ERM
from fairmargin.training.parts.losses import CrossEntropy
from fairmargin.training.plan import TrainingPlan
from fairmargin.training.recipe import Recipe, Term
from fairmargin.training.train import train
from tests.training.problems import blobs, same_weights, tiny

PLAN = TrainingPlan(rate=0.1, batch=16)


def net(classes=3):
    return tiny(normed=True, classes=classes, dtype=torch.float32)


def test_an_ordinary_training_has_nothing_to_note():
    assert train(net(), blobs(), ERM(), epochs=1, partition="kind", validation=blobs(30, 1), plan=PLAN).notes == ()


def test_outputs_of_no_class_are_noted(tmp_path):
    (note,) = train(net(classes=5), blobs(), ERM(), epochs=1, plan=PLAN, out=tmp_path).notes
    assert note.startswith(
        "The model tells 5 classes apart, and the training data have 3 of them: none is of class 3, 4."
    )
    assert note in (tmp_path / "training.json").read_text(encoding="utf-8")


def test_groups_that_validation_data_lack_are_noted():
    other = blobs(30, 1)
    common = other.take(other.attributes["kind"] == "common")
    (note,) = train(net(), blobs(), ERM(), epochs=1, partition="kind", validation=common, plan=PLAN).notes
    assert note.startswith("The validation data have no sample of 'rare' (kind): the worst group there")


def test_an_indicator_trains_as_plain_training_does_and_that_is_noted():
    hard, plain = (
        train(net(), blobs(), method, epochs=2, plan=PLAN) for method in (parse_method("adverm:temperature=0"), ERM())
    )
    assert hard.notes == (
        "`temperature` of `adverm` is 0: the indicator has no gradient, and the network is trained as by `erm`.",
    )
    assert same_weights(hard.module, plain.module)
    assert train(net(), blobs(), parse_method("adverm:temperature=0.1"), epochs=1, plan=PLAN).notes == ()


class Broken:
    """A loss that is no number from the first step on."""

    def recipe(self, epoch, epochs):
        return Recipe.of(Term(CrossEntropy(), weight=math.nan))


def test_the_repr_of_a_result_is_a_line(tmp_path):
    found = train(net(), blobs(), ERM(), epochs=2, partition="kind", validation=blobs(30, 1), plan=PLAN, out=tmp_path)
    last = found.history[-1]
    assert repr(found) == (
        f"TrainingResult(Sequential, 2 epochs, loss {last.loss:.4g}, accuracy {last.accuracy:.1%}, worst group "
        f"'{last.worst_group}' {last.worst_accuracy:.1%}, best epoch {found.best_epoch}, in '{tmp_path}')"
    )
    broken = train(net(), blobs(), Broken(), epochs=1, plan=PLAN)
    assert repr(broken) == "TrainingResult(Sequential, 0 epochs, stopped early)"
