"""Compilation by numba, and the types of compiled code."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])

Places = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint64]
Records = npt.NDArray[Any]

LINF, L1, L2 = 0, 1, 2


# Machine code is kept for one version of all files of this package, since a function contains those that it calls.
_SOURCES = sha256(b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))).hexdigest()[:12]


def compiled(function: Function) -> Function:
    """Compile a function with numba and keep the machine code on disk, without losing its type.

    Compiled functions must not call themselves: numba's machine code of such functions crashes when it is loaded again.
    """
    function.__qualname__ += f"-{_SOURCES}"  # numba names the files of machine code after it
    return cast(Function, njit(cache=True, error_model="numpy")(function))
