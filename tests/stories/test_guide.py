"""The Python examples of the guide and of CONTRIBUTING.md run as printed."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("docs/guide.md", "CONTRIBUTING.md")


def blocks(page: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def places() -> list[tuple[str, int]]:
    return [(page, number) for page in PAGES for number in range(len(blocks(page)))]


@pytest.mark.parametrize(("page", "number"), places())
def test_the_python_examples_run(page: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # some examples write a report
    exec(compile(blocks(page)[number], f"{page}, block {number + 1}", "exec"), {"__name__": "example"})


@pytest.mark.parametrize("page", PAGES)
def test_both_pages_show_how_to_write_an_attack_and_a_training_method(page: str) -> None:
    shown = blocks(page)
    assert any("def recipe(self, epoch, epochs):" in block and "fm.train(" in block for block in shown)
    assert any("*, radius, keys):" in block and "fm.robust_accuracy(" in block for block in shown)
