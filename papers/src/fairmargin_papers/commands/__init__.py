"""The commands `reproduce` and `theory`, to which entry points of the group `fairmargin.commands` refer."""

from fairmargin.cli.commands import Command

REPRODUCE = Command(
    "fairmargin_papers.commands.reproduce:reproduce", "Reproduce a paper's experiments and check its claims."
)
THEORY = Command("fairmargin_papers.commands.theory:app", "Show the papers' closed-form results as tables and figures.")
