"""Chromium without a window, and what the tests of the pages ask in it."""

import os
import shutil
import time
from contextlib import contextmanager

import pytest

playwright = pytest.importorskip(
    "playwright.sync_api", reason="no playwright; pip install 'albert-rc[browser]'"
)
axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright",
    reason="no axe; pip install 'albert-rc[browser]'",
)

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


@contextmanager
def browsing():
    """The browser that CHROMIUM names or that is installed; without one the tests are skipped."""
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)}, and CHROMIUM names none")
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=path, args=QUIET)
        yield found
        found.close()


def check(page):
    """Have axe look for barriers."""
    found = axe.Axe().run(page, options={"resultTypes": ["violations"]})
    assert found.violations_count == 0, found.generate_report()


def until(page, expression):
    """Wait for something to become true; the page's own policy forbids `wait_for_function`."""
    end = time.perf_counter() + 30
    while not page.evaluate(expression):
        assert time.perf_counter() < end, expression
        page.wait_for_timeout(20)
