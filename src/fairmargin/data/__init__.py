"""Datasets: samples with labels and attributes, from the catalog, from files, or as distances measured elsewhere.

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
    from fairmargin.data.formats.huggingface import from_huggingface as from_huggingface
    from fairmargin.data.formats.image_folder import load_images as load_images
    from fairmargin.data.formats.torch_dataset import from_torch as from_torch

# Imported on first use (PEP 562), as in `fairmargin` itself.
_DEFINED_IN = {
    "DATASETS": "catalog",
    "Dataset": "dataset",
    "from_huggingface": "formats.huggingface",
    "from_torch": "formats.torch_dataset",
    "load": "catalog",
    "load_images": "formats.image_folder",
}

__all__ = [*_DEFINED_IN]  # noqa: PLE0604 - all entries are strings


def __getattr__(name: str) -> Any:
    if name in _DEFINED_IN:
        return getattr(import_module(f"fairmargin.data.{_DEFINED_IN[name]}"), name)
    raise AttributeError(f"module 'fairmargin.data' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
