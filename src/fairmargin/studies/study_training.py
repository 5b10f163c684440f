"""What a method's section, and what all methods share, come to: a method, its epochs, and a plan without a gap."""

from dataclasses import dataclass, replace

from fairmargin.core.suggestion import suggest
from fairmargin.errors import InputError
from fairmargin.runner.trainer import WORDS, watching
from fairmargin.studies.study_sections import MethodSection, TrainingSection
from fairmargin.study.options import TrainOptions
from fairmargin.study.paper_settings import PAPERS
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
        return replace(self, plan=self.plan.model_copy(update={"seed": seed}))

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
    fields = {name: value for name in TrainingSection.model_fields if (value := said(name)) not in (None, "")}
    options = TrainOptions(method=section.method, **fields)
    method = parse_method(section.method)
    watch, watched = watching(method, options.watch, options.watch_radius)
    return Settings(method, options.epochs, TrainingPlan(**options.descent(), watch=watch, watch_radius=watched))
