"""Every refusal raises the right error, with one sentence, the expected words and the name of the parameter."""

from importlib import import_module
from pkgutil import iter_modules

import pytest

from fairmargin.errors import InputError
from tests.spec import refusals
from tests.spec.refusals import Refusal

ROWS = [
    pytest.param(row, id=f"{module.name}: {row.words}")
    for module in iter_modules(refusals.__path__)
    for row in import_module(f"{refusals.__name__}.{module.name}").REFUSALS
]


@pytest.mark.parametrize("row", ROWS)
def test_every_refusal_is_one_sentence_that_names_its_parameter(row: Refusal, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(row.error) as raised:
        row.call(tmp_path)
    said = str(raised.value)
    assert type(raised.value) is row.error
    for words in row.words.split("; "):
        assert words in said
    assert said.endswith((".", "?", ")")), "a complete sentence"
    assert "\n" not in said
    if isinstance(raised.value, InputError):
        assert raised.value.field == row.field
