"""Attack a case at fixed radii, and compare the robust accuracy of groups."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from fairmargin.attacks.catalog import parse_attack
from fairmargin.attacks.outcomes import check_radius
from fairmargin.attacks.protocol import Attack, check_attack
from fairmargin.attacks.robust_accuracy import spelled, unseen_classes
from fairmargin.distances.combine import tightest
from fairmargin.errors import InputError
from fairmargin.runner.cases import Case, Subject
from fairmargin.runner.measurer import Measured, Measurer
from fairmargin.study.options import AttackOptions
from fairmargin.study.record import StoredResult

DEFAULT = "pgd"


def attack_case(options: AttackOptions, case: Case, measure: Measurer) -> Iterator[tuple[StoredResult, Any]]:
    """Yield the robust accuracy of groups under every attack at every radius, and under all attacks together.

    For several attacks in one norm, their combination is added: a sample is robust if it withstands all of them.
    """
    attacks = attacks_of(options)
    subject = case.measured
    measure.note(*unseen_classes(subject.model.classes, subject.positions, "the samples"))
    outcomes = {
        (name, radius): measure.attack(case, attack, radius, name)
        for name, attack in attacks.items()
        for radius in options.radius
    }
    outcomes |= _together(outcomes, measure)
    settings, how = case.settings(options), case.described(options)
    yield from measure.results(
        [
            (
                StoredResult(
                    kind="robust_accuracy",
                    about=case.about.model_copy(update={"partition": partition.name, "attack": name, "radius": radius}),
                    settings=how,
                ),
                (found,),
                partition,
                settings,
            )
            for (name, radius), found in outcomes.items()
            for partition in case.partitions
        ],
        "comparing groups",
    )


def attacks_of(options: AttackOptions) -> dict[str, Attack]:
    """Return the attacks by their spelling; pgd if none was named."""
    if not options.radius:
        raise InputError(
            "is missing: how far may the attack go? For images in [0, 1] for instance 4/255", field="radius"
        )
    return {spelled(attack): attack for attack in map(parse_attack, options.attack or (DEFAULT,))}


def check_attacks(options: AttackOptions, subject: Subject) -> None:
    """Refuse attacks that the model cannot serve, and radii larger than the domain."""
    for name, attack in attacks_of(options).items():
        check_attack(subject.model, attack, name)
        for radius in options.radius:
            check_radius(subject.model.domain, attack.norm, radius, math.prod(subject.shape))


def _together(outcomes: Mapping[tuple[str, float], Measured], measure: Measurer) -> dict[tuple[str, float], Measured]:
    """Return the combination of all attacks with the same norm and radius."""
    alike: dict[tuple[Any, float], list[str]] = {}
    for (name, radius), found in outcomes.items():
        alike.setdefault((found.distances.norm, radius), []).append(name)
    together = {}
    for (_, radius), names in alike.items():
        if len(names) > 1:
            several = [outcomes[name, radius] for name in names]
            best = tightest(*(each.distances for each in several))
            keys = " / ".join(" ".join(each.keys) for each in several)
            together[" + ".join(names), radius] = measure.keep(best, {"together": keys}, {"together": names})
    return together
