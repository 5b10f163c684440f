"""What a method's section, and what all methods share, come to: a method, its epochs, and a plan without a gap."""

from dataclasses import dataclass, replace

from fairmargin.core.suggestion import suggest
from fairmargin.errors import InputError
from fairmargin.studies.epoch_audits import WORDS
from fairmargin.studies.paper_settings import PAPERS, Wishes, descent
from fairmargin.studies.study_sections import MethodSection, TrainingSection
from fairmargin.studies.training_study import watching
from fairmargin.training.catalog import parse_method
from fairmargin.training.checkpoints import epochs_to_keep
from fairmargin.training.plan import TrainingPlan
from fairmargin.training.recipe import TrainingMethod

LAST, BEST = "last", "best"


@dataclass(frozen=True, slots=True)
class Settings:
    """How a network is trained: what `fairmargin.train` is called with."""

    method: TrainingMethod
    epochs: int
    plan: TrainingPlan

    def with_seed(self, seed: int) -> "Settings":
        """The same, by another seed."""
        return replace(self, plan=replace(self.plan, seed=seed))

    def epoch(self, word: str, validated: bool) -> str:
        """The epoch that a word means: its number, "last" or "best"; one whose weights are not kept is refused.

        >>> settings_of(MethodSection(method="erm", epochs=10), TrainingSection()).epoch("middle", True)
        '5'
        """
        if word == BEST and not validated:
            raise InputError("the epoch 'best' is the best on validation data, and `validation` = 0 leaves none.")
        if word in (LAST, BEST):
            return word
        number = {"first": 1, "middle": max(self.epochs // 2, 1)}.get(word) or int(word)
        kept = epochs_to_keep(self.epochs, self.plan.keep_every)
        if number > self.epochs:
            raise InputError(f"there is no epoch {number} among {self.epochs}.")
        if number not in kept:
            some = ", ".join(map(str, sorted(kept)))
            raise InputError(
                f"the weights of epoch {number} are not kept, only those of {some}. Keep more with `keep_every`, or "
                f"ask for one of {', '.join(WORDS)}."
            )
        # A training that may stop early has a last epoch, but perhaps none of that number.
        return LAST if number == self.epochs and not self.plan.patience else str(number)


def settings_of(section: MethodSection, usual: TrainingSection) -> Settings:
    """What the method's section says, else what all methods share, else the paper, else the usual."""

    def said(name: str) -> object:
        own = getattr(section, name)
        return getattr(usual, name) if own in (None, "") else own

    paper = str(said("settings_of"))
    if paper and paper not in PAPERS:
        raise InputError(f"there are no settings of {paper!r}. {suggest(paper, PAPERS)}")
    if said("epochs") is None and not paper:
        raise InputError("how long is to be trained? Give `epochs`, there or in [training].")
    steps = descent(Wishes(**{name: said(name) for name in Wishes.__dataclass_fields__}), paper)  # type: ignore[arg-type]
    method = parse_method(section.method)
    radius = said("watch_radius")
    watch, watched = watching(method, str(said("watch") or ""), "" if radius is None else str(radius))
    others = ("augmentation", "average", "watch_samples", "patience", "keep_every")
    plan = TrainingPlan(
        rate=steps.rate,
        optimizer=steps.optimizer,
        momentum=steps.momentum,
        weight_decay=steps.weight_decay,
        batch=steps.batch,
        schedule=steps.schedule,
        watch=watch,
        watch_radius=watched,
    )
    return Settings(method, steps.epochs, replace(plan, **{n: said(n) for n in others if said(n) is not None}))  # type: ignore[arg-type]
