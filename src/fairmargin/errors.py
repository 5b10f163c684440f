"""The few ways in which Fairmargin says no.

Every error is a sentence for the person at the keyboard: what was expected, what was given, where, and what to do.
The command line prints the sentence and exits with code 2; a traceback means a defect of ours.
"""


class FairmarginError(ValueError):
    """Base of every error that a user can cause and mend."""


class InputError(FairmarginError):
    """Data, labels, groups or options that do not fit together."""


class MissingDataError(InputError):
    """The files of a dataset are not on this machine."""


class UnreachedError(FairmarginError):
    """An average was asked over samples some of which have no finite distance."""


class ModelError(FairmarginError):
    """A model that cannot be read, or that lacks what an estimator needs."""


class StoreError(FairmarginError):
    """A run folder that cannot be read, written or continued."""


class UntrustedError(FairmarginError):
    """A file whose reading could run foreign code, and nobody said that it is trusted."""
