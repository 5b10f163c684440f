"""The claim that AdvERM with the printed indicator equals plain training, bit for bit."""

import torch
from torch import nn

from fairmargin.data.dataset import Dataset
from fairmargin.data.sets.synthetic import three_classes
from fairmargin.training.methods.plain import ERM, AdvERM
from fairmargin.training.plan import TrainingPlan
from fairmargin.training.recipe import TrainingMethod
from fairmargin.training.train import train
from fairmargin_papers.shared.paper import Assignment, Findings, Part


def run(assignment: Assignment) -> Findings:
    """Train a tiny network plainly, with the indicator and with a sigmoid, from the same initial weights."""
    seeds, epochs = assignment.by_scale((1, 3), (3, 10), (3, 10))
    data = three_classes(300)
    alike, farthest = 0, []
    for seed in range(seeds):
        assignment.progress("nanda2020: tiny networks", seed, seeds)
        plain, hard, soft = (
            trained(data, method, seed, epochs)
            for method in (ERM(), AdvERM(weight=0.1, radius=0.5, temperature=0.0), AdvERM(weight=0.1, radius=0.5))
        )
        alike += all(torch.equal(plain[name], hard[name]) for name in plain)
        farthest.append(max(float((plain[name] - soft[name]).abs().max()) for name in plain))
    assignment.progress("nanda2020: tiny networks", seeds, seeds)
    row = assignment.claims[7].found(
        f"the same weights bit for bit for {alike} of {seeds} seeds; with a sigmoid a weight differs by "
        f"{min(farthest):.2g} or more",
        "holds" if alike == seeds and min(farthest) > 0 else "does not hold",
        remark="The slope of a step function is 0 wherever it is defined, so that training with it is plain training; "
        "`adverm` has a sigmoid of temperature 0.1 instead, and `temperature=0` is the printed form.",
    )
    note = (
        f"Indicator: a network of 2-16-3 units on 300 samples of `toy-three-classes`, {epochs} epochs, α = 0.1, "
        "τ = 0.5, groups = classes."
    )
    return Findings((row,), (), (note,))


PART = Part("indicator", "AdvERM with the printed indicator", frozenset({7}), run)


def trained(data: Dataset, method: TrainingMethod, seed: int, epochs: int) -> dict[str, torch.Tensor]:
    """Return the weights after training; all methods have the same initial weights and order of samples."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 3))
    plan = TrainingPlan(rate=0.01, batch=32, seed=seed)
    found = train(network, data, method, epochs=epochs, plan=plan)
    return {name: weight.detach().clone() for name, weight in found.module.state_dict().items()}
