"""Samples with labels and attributes: from files, from a catalog, or as distances measured elsewhere.

>>> from fairmargin import data
>>> data.load("digits", split="test")
Dataset('digits', 719 samples of shape (64,), attributes: digit, ink)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairmargin.data.catalog import DATASETS as DATASETS
    from fairmargin.data.catalog import load as load
    from fairmargin.data.dataset import Dataset as Dataset
    from fairmargin.data.foreign import from_torch as from_torch
    from fairmargin.data.huggingface import from_huggingface as from_huggingface
    from fairmargin.data.image_folder import load_images as load_images

# Resolved when first used (PEP 562), as in `fairmargin` itself.
_DEFINED_IN = {
    "DATASETS": "catalog",
    "Dataset": "dataset",
    "from_huggingface": "huggingface",
    "from_torch": "foreign",
    "load": "catalog",
    "load_images": "image_folder",
}

__all__ = [*_DEFINED_IN]  # noqa: PLE0604 - names, all of them


def __getattr__(name: str) -> Any:
    if name in _DEFINED_IN:
        return getattr(import_module(f"fairmargin.data.{_DEFINED_IN[name]}"), name)
    raise AttributeError(f"module 'fairmargin.data' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
