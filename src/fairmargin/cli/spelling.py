"""How fields are spelled on the command line."""


def option_name(field: str) -> str:
    """Return a field as the command line spells it.

    >>> option_name("merge_below"), option_name("audit.up_to")
    ('--merge-below', '--up-to')
    """
    return "--" + field.rpartition(".")[2].replace("_", "-")
