"""The benchmark of upper bounds: measures what is missing, times three interleaved repetitions, writes the page.

    make bench-distances

Results go to benchmarks/measured.json one by one, repetitions of timings to benchmarks/out: an interrupted run goes
on, and only what changed (our code, a peer's settings) is measured again. One process, one thread unless told
otherwise, the same samples for all.
"""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from statistics import median

import torch
from torch import Tensor

from distances import facts, store, timing
from distances.models import CARDS, OUT, Subject, load_subject
from distances.ours import OURS, as_measured, code_version, distances, known
from distances.peers import PEERS, Peer, guard, in_batches
from distances.tuning import TUNED, tuned_entries
from distances.write import machine, write_page

REPETITIONS = 3
Tuned = Mapping[str, Mapping[str, Mapping[str, float]]]
_TIMED = (  # the rest is counted, not timed
    "fairmargin plumb 8", "fairmargin plumb 12", "fairmargin plumb 20", "fairmargin plumb 40", "fairmargin deepfool 0",
    "adv-lib FMN 10", "adv-lib FMN 20", "adv-lib FMN 30", "adv-lib FMN 50", "adv-lib DDN 20", "adv-lib DDN 50",
    "adv-lib ALMA 50", "adv-lib ALMA 100", "adv-lib DeepFool 100", "foolbox DeepFool 100",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Contestant:
    """Someone with a number of steps, on one model: how to find out the facts, and how to run it for the clock."""

    key: str
    version: str
    steps: int
    samples: int
    facts: Callable[[], facts.Fact]
    run: Callable[[], object]


def contestants(subject: Subject, tuned: Tuned, most: int, only: str) -> list[Contestant]:
    """Ours first, then the peers, up to so many steps."""
    classifier, sentence = as_measured(subject)
    print(f"{subject.name}: {sentence}", flush=True)
    measured = store.read()
    store.write(replace(measured, copies={**measured.copies, subject.name: sentence}))
    found = []
    for text in known():
        name, steps = facts.spelled(text)
        if steps <= most:
            found.append(
                Contestant(
                    f"fairmargin {name} {steps}", code_version(), steps, len(subject.x),
                    lambda text=text: facts.of_ours(text, subject, classifier),
                    lambda text=text: distances(classifier, subject, text),
                )
            )  # fmt: skip
    if only == "ours":
        return found
    asked = [_of_peer(peer, subject, n, tuned) for peer in PEERS for n in peer.budgets if n <= most]
    theirs = [someone for someone in asked if someone is not None]
    return theirs if only == "peers" else found + theirs


def _of_peer(peer: Peer, subject: Subject, steps: int, tuned: Tuned) -> Contestant | None:
    settings: Mapping[str, float] = {}
    if peer.axes or peer.tuned_as:
        place = f"{peer.tuned_as or peer.key} {steps}"
        near = [k for k in tuned if k.rpartition(" ")[0] == (peer.tuned_as or peer.key)]
        # What was not tuned at this budget takes the settings of the nearest one that was.
        place = place if place in tuned else min(near, key=lambda k: abs(int(k.rpartition(" ")[2]) - steps), default="")
        if not place:
            print(f"{subject.name}: {TUNED.name} has no {peer.key}, left out; `make bench-tuning` tunes it", flush=True)
            return None
        settings = tuned[place]["settings"]
    x, y = subject.x[: peer.samples], subject.y[: peer.samples]

    def run() -> Tensor:
        return in_batches(peer.attack, subject.model, x, y, steps, settings)

    return Contestant(
        f"{peer.key} {steps}", facts.settings_version(settings), steps, len(x),
        lambda: facts.of_peer(peer, subject, steps, settings), run,
    )  # fmt: skip


def find_facts(subject: Subject, everyone: list[Contestant]) -> None:
    """Success, distances and passes of those for whom they are not known yet."""
    for someone in everyone:
        measured = store.read()
        if any(_known(point, subject, someone) for point in measured.points):
            continue
        fact = someone.facts()
        store.write(measured.with_fact(fact))
        print(
            f"{subject.name:9s} {fact.key:28s} {fact.forward:7.1f}/{fact.backward:7.1f} "
            f"mean {fact.mean:.4f} success {fact.success:.4f}",
            flush=True,
        )


def _known(point: store.Point, subject: Subject, someone: Contestant) -> bool:
    fact = point.fact
    return (fact.model, fact.key, fact.version) == (subject.name, someone.key, someone.version)


def find_times(subject: Subject, everyone: list[Contestant]) -> None:
    """Each repetition of all before the next repetition of any; the medians are stored."""
    timed = [someone for someone in everyone if someone.key in _TIMED]
    there = {(line.key, line.version, line.repetition) for line in timing.kept(subject.name)}
    for repetition in range(REPETITIONS):
        for someone in timed:
            if (someone.key, someone.version, repetition) in there:
                continue
            seconds, bare = timing.timed(someone.run, subject.model, subject.x, someone.samples)
            timing.keep(timing.Timed(subject.name, someone.key, someone.version, repetition, seconds, bare))
            print(
                f"{subject.name:9s} {someone.key:28s} run {repetition + 1}: {1000 * seconds:.2f} ms a sample",
                flush=True,
            )
    measured = store.read()
    for someone in timed:
        lines = [t for t in timing.kept(subject.name) if (t.key, t.version) == (someone.key, someone.version)]
        fact = next(point.fact for point in measured.points if _known(point, subject, someone))
        pace = median(t.seconds / t.bare.of(1, 1) for t in lines)
        overhead = median(t.seconds / t.bare.of(fact.forward, fact.backward) for t in lines)
        measured = measured.with_times(subject.name, someone.key, pace, overhead, date.today().isoformat())
    store.write(measured)


def main() -> None:
    """Facts, times, page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help=f"some of {', '.join(CARDS)}; all by default")
    parser.add_argument("--most-steps", type=int, default=1000, help="leave out who asks for more")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", choices=("ours", "peers"), default="", help="leave the others as they were measured")
    parser.add_argument("--like", nargs="*", default=[""], help="only whose name has one of these, such as 'FMN 100'")
    parser.add_argument("--no-times", action="store_true", help="success, distances and passes only")
    parser.add_argument("--write", action="store_true", help="measure nothing, write the page of what is there")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    guard()
    left_out = sorted({text.partition(":")[0] for text in OURS} - {text.partition(":")[0] for text in known()})
    if left_out:
        print(f"not in the catalog, left out: {', '.join(left_out)}")
    if not options.write:
        OUT.mkdir(exist_ok=True)
        tuned, measured = tuned_entries(), store.read()
        runs = {date.today().isoformat(): machine(options.threads), **measured.runs}  # keeps what was noted today
        store.write(replace(measured, runs=runs))
        for name in options.models or CARDS:
            subject = load_subject(name)
            everyone = [
                someone
                for someone in contestants(subject, tuned.get(name, {}), options.most_steps, options.only)
                if any(text in someone.key for text in options.like)
            ]
            find_facts(subject, everyone)
            if not options.no_times:
                find_times(subject, everyone)
    write_page()


if __name__ == "__main__":
    main()
