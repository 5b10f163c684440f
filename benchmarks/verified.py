"""How far the answers of the public MNIST pair are proven not to change, against the best that an attack finds.

    OMP_NUM_THREADS=1 .venv/bin/python -m benchmarks.verified [--samples 64] [--method crown-ibp] [--models robust]

Prints a row a model and norm: the mean proven radius, the mean distance that `plumb` finds, their ratio, the share of
samples with a proven radius above 0, how many proofs exceed an attack (must be 0), and seconds a sample. It needs
../shared/weights and ../shared/data. `--method crown` is tighter on most networks and 15 to 40 times as slow: take
few samples.
"""

import argparse
import time

import torch
from benchmarks.distances.models import load_subject

import fairmargin as fm
from fairmargin.core.norm import Norm
from fairmargin.distances.plumb.estimator import Plumb
from fairmargin.distances.verified import METHODS, Verified


def row(name: str, norm: Norm, method: str, samples: int) -> str:
    """One line of the table."""
    subject = load_subject(name)
    x, y = subject.x[:samples].numpy(), subject.y[:samples].numpy()
    began = time.perf_counter()
    proven = fm.measure(subject.model, x, y, Verified(norm, method)).values
    seconds = (time.perf_counter() - began) / samples
    attacked = fm.measure(subject.model, x, y, Plumb(norm)).values
    return (
        f"{name:8} {norm!s:4} {method:10} {proven.mean():8.4f} {attacked.mean():8.4f} "
        f"{proven.mean() / attacked.mean():6.1%} {(proven > 0).mean():7.1%} {(proven > attacked).sum():6d} "
        f"{seconds:9.2f}"
    )


def main() -> None:
    """Print the table, row by row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--method", choices=METHODS, default="crown-ibp")
    parser.add_argument("--models", default="robust,clean")
    given = parser.parse_args()
    torch.set_num_threads(1)
    print("model    norm method       proven attacked  ratio     > 0  above  s/sample", flush=True)
    for name in given.models.split(","):
        for norm in (Norm.L2, Norm.LINF):
            print(row(name, norm, given.method, given.samples), flush=True)


if __name__ == "__main__":
    main()
