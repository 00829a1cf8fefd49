"""Debian's Chromium under Playwright; pages that notice every error."""

import contextlib
import shutil

from playwright.sync_api import Error, sync_playwright

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# The sandbox needs privileges that containers lack; the pages are our own.
ARGUMENTS = ["--disable-gpu", "--no-sandbox", "--disable-dev-shm-usage", "--force-device-scale-factor=1"]


class NoChromium(Exception):
    """Says what is missing."""


@contextlib.contextmanager
def chromium():
    program = next(filter(None, map(shutil.which, NAMES)), None)
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        except Error as error:
            raise NoChromium(f"no Chromium can be started (apt-get install chromium-headless-shell): {error}") from None
        yield browser
        browser.close()
