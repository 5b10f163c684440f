"""Stored distances are found by fingerprints, so our own modules in them must keep their former names and sources."""

from hashlib import sha256

import pytest

from fairmargin.models.module_fingerprint import _code_of
from fairmargin.models.normalized import Normalized
from fairmargin.models.reading.programs import Program


@pytest.mark.parametrize(
    ("kind", "name", "digest"),
    [
        (
            Normalized,
            "fairmargin.models.normalized.Normalized",
            "f578407dd06bcfd36caec70331718c9eb620d0645603ed36352f1f2e3c65e7fb",
        ),
        (
            Program,
            "fairmargin.models.programs.Program",
            "45e3abc31b0152d6feb89dc32d81153e2e2fe169398637166679776561855e69",
        ),
    ],
)
def test_name_and_source_of_our_own_modules_in_fingerprints_never_change(kind, name, digest):
    code = _code_of(kind)
    assert code.startswith(f"{name} ")
    assert sha256(code.encode()).hexdigest() == digest
