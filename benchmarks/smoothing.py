"""How many draws does a plan save, at what loss of radius?

    OMP_NUM_THREADS=1 .venv/bin/python -m benchmarks.smoothing

Writes benchmarks/out/smoothing.json and prints what it says. A LeNet-5 for Fashion-MNIST (the one of the benchmark of
distances) is trained on for one short epoch with the noise that it is smoothed with; the votes of 100 test images are
recorded once, 10,000 draws each, with our own `Poll` (about five minutes on a busy core, kept in benchmarks/out). Then
certificates are replayed from those shares: pilot and fresh votes are drawn anew from the recorded ones. Pilots are
counted on both sides. Two opponents make a fixed n = 10,000 draws: Cohen's CERTIFY as published, for every sample, and
one that, like ours, stops where the pilot's vote is wrong. The same for the net that never saw noise, as the papers
smoothed theirs. The default price and the prior were chosen, among some forty settings, on other images (and on made-up
shares): none of the 100 here was looked at for that.
"""

import json

import numpy as np
import torch
from benchmarks.distances.models import LENET, OUT, SHARED
from torch import nn

import fairmargin as fm
from fairmargin.core.keys import sample_keys
from fairmargin.distances.smoothing.estimator import Smoothing, certified_radius, planned_draws
from fairmargin.distances.smoothing.votes import FINAL, polling
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.reading.weights import load_weights

TUNING = 100  # images before these, on which the price and the prior of the plan were chosen
SIGMA, SAMPLES, DRAWS, REPLAYS, TRAINING_IMAGES = 0.25, 100, 10_000, 400, 25_600


def images(split: str) -> tuple[torch.Tensor, torch.Tensor]:
    data = fm.load("fashion-mnist", root=SHARED / "data", split=split)
    return torch.as_tensor(np.asarray(data.x[:]), dtype=torch.float32), torch.as_tensor(np.asarray(data.y))


def network(noisy: bool) -> nn.Module:
    """The LeNet of the benchmark of distances; on demand trained on with noise, once."""
    module, path = fm.build_architecture("lenet5", (1, 28, 28), 10), OUT / "smoothing-lenet.pt"
    if noisy and path.is_file():
        load_weights(module, path)
        return module.eval()
    load_weights(module, LENET)
    if noisy:
        torch.manual_seed(0)
        x, y = images("train")
        module.train()
        optimiser = torch.optim.Adam(module.parameters(), lr=1e-3)
        for part in torch.randperm(len(x))[:TRAINING_IMAGES].split(128):
            optimiser.zero_grad()
            nn.functional.cross_entropy(module(x[part] + SIGMA * torch.randn_like(x[part])), y[part]).backward()
            optimiser.step()
        torch.save(module.state_dict(), path)
    return module.eval()


def recorded(noisy: bool) -> tuple[np.ndarray, np.ndarray]:
    """The counts of votes, a row a sample, and the labels."""
    path = OUT / f"smoothing-votes-{'noisy' if noisy else 'plain'}.npz"
    if not path.is_file():
        x, y = (part.numpy() for part in images("test"))
        chosen = np.random.default_rng(0).permutation(len(x))[TUNING : TUNING + SAMPLES]
        x, y = x[chosen], y[chosen]
        with polling(as_classifier(network(noisy)), x.shape[1:], SIGMA) as poll:
            counts = []
            for i, (row, key) in enumerate(zip(poll.rows(x), sample_keys(x, y), strict=True)):
                counts.append(poll.count(row, key, FINAL, DRAWS))
                print(f"\rvotes of {i + 1} of {SAMPLES} samples", end="", flush=True)
        print()
        np.savez(path, counts=np.array(counts), y=y)
    with np.load(path) as kept:
        return kept["counts"], kept["y"]


def replayed(counts: np.ndarray, y: np.ndarray, price: float, rng: np.random.Generator) -> tuple[float, float, float]:
    """Draws of CERTIFY and of a fixed n for right votes over ours, and the relative loss of mean radius."""
    estimator = Smoothing(sigma=SIGMA, draws=DRAWS, price=price)
    shares = counts / counts.sum(axis=1, keepdims=True)
    pilot = np.array([rng.multinomial(estimator.pilot, share) for share in shares])
    right, own = pilot.argmax(axis=1) == y, shares[np.arange(len(y)), y]
    plan = planned_draws(estimator.pilot, estimator.draws, estimator.alpha, estimator.price)
    fresh = np.where(right, plan[pilot[np.arange(len(y)), y]], 0)
    ours = certified_radius(rng.binomial(fresh, own), fresh, SIGMA, estimator.alpha).mean()
    fixed = np.where(right, certified_radius(rng.binomial(DRAWS, own), DRAWS, SIGMA, estimator.alpha), 0.0).mean()
    cost = estimator.pilot + fresh.mean()
    return (
        (estimator.pilot + DRAWS) / cost,
        (estimator.pilot + DRAWS * right.mean()) / cost,
        1 - ours / fixed,
    )


def main() -> None:
    torch.set_num_threads(1)
    results = []
    for noisy in (True, False):
        counts, y = recorded(noisy)
        for price in (Smoothing().price, 0.09):
            rng = np.random.default_rng(1)
            runs = np.array([replayed(counts, y, price, rng) for _ in range(REPLAYS)])
            low, middle, high = np.quantile(runs, [0.025, 0.5, 0.975], axis=0)
            kind = "trained with noise" if noisy else "never saw noise"
            names = ("fewer draws than CERTIFY", "fewer draws than a fixed n for right votes", "loss of mean radius")
            print(f"LeNet-5, Fashion-MNIST, sigma {SIGMA}, {kind}, {len(y)} samples, price {price}:")
            for name, *limits in zip(names, low, middle, high, strict=True):
                print(f"  {name}: {limits[1]:.3f} ({limits[0]:.3f} to {limits[2]:.3f} in 95 % of {REPLAYS} replays)")
                results.append({"model": kind, "price": price, "what": name, "low_middle_high": limits})
    (OUT / "smoothing.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
