"""Waiting for a page that lets no text be run as code."""

from typing import Any

DRAWN = "document.querySelectorAll('.plot[data-drawn]').length === document.querySelectorAll('.plot').length"


def wait_until(page: Any, condition: str, seconds: int = 60) -> None:
    """Until the condition holds. Playwright's own waiting runs texts as code, which the page's policy forbids."""
    for _ in range(seconds * 10):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"{condition} did not come true")
