"""Waiting for a page whose content security policy forbids evaluating text as code."""

from typing import Any

DRAWN = "document.querySelectorAll('.plot[data-drawn]').length === document.querySelectorAll('.plot').length"


def wait_until(page: Any, condition: str, seconds: int = 60) -> None:
    """Wait until the condition holds. Playwright's own function evaluates text as code, which the policy forbids."""
    for _ in range(seconds * 10):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"{condition} did not come true")
