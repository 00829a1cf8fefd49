"""What the tests share: a server with models/nano, a browser, and a page that fails its test by any error of its own."""

import contextlib
import json
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

sys.path.append(str(Path(__file__).resolve().parents[1] / "clients"))
from _chromium import NoChromium, chromium  # pylint: disable=wrong-import-position
from _server import serving  # pylint: disable=wrong-import-position

SECONDS = 60  # for whatever a test waits for; other work on the machine makes browsers slow
QUICK = {"effort": "low", "temperature": 0, "max_tokens": 200}

expect.set_options(timeout=SECONDS * 1000)


@pytest.fixture(scope="session")
def browser():
    try:
        with chromium() as program:
            yield program
    except NoChromium as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def server(browser):  # pylint: disable=redefined-outer-name,unused-argument  # no server without a browser
    with serving() as running:
        yield running


class Chat:
    """The page as its user sees it."""

    def __init__(self, page, url):
        self.page = page
        self.url = url
        self.errors = []  # of the console and of scripts
        self.addresses = []
        page.on("console", lambda message: message.type == "error" and self.errors.append(message.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.addresses.append(request.url))
        self.composer = page.locator("#composer-text")
        self.replies = page.locator("article.reply")
        self.questions = page.locator("article.question")

    def open(self, path="/"):
        """Opens the page, or opens it again once it has kept what it was told: that is not instant."""
        expect(self.page.locator("body[data-saving]")).to_have_count(0)
        self.page.goto(self.url + path)
        expect(self.page.locator("body[data-ready]")).to_be_attached()
        return self

    def choose(self, **settings):
        self.page.evaluate("text => localStorage.setItem('perigee.settings', text)", json.dumps(settings))
        self.page.reload()
        expect(self.page.locator("body[data-ready]")).to_be_attached()
        return self

    def ask(self, text):
        self.composer.fill(text)
        self.composer.press("Enter")

    def expect_end(self):
        """The turn is over."""
        expect(self.replies.last).to_have_attribute("aria-busy", "false")
        expect(self.page.locator("#send")).to_be_visible()
        return self.replies.last

    def button(self, name, within=None):
        return (within or self.page).get_by_role("button", name=name, exact=True)

    def forgive(self, words):
        """An error of the console that the test provokes."""
        found = [error for error in self.errors if words in error]
        assert found, f"{words} is not among {self.errors}"
        self.errors = [error for error in self.errors if words not in error]


@contextlib.contextmanager
def chat_in(browser, url, **options):  # pylint: disable=redefined-outer-name
    context = browser.new_context(viewport={"width": 1200, "height": 800}, permissions=["clipboard-read", "clipboard-write"],
                                  **options)
    context.set_default_timeout(SECONDS * 1000)
    shown = Chat(context.new_page(), url)
    yield shown
    context.close()
    assert shown.errors == []
    elsewhere = [address for address in shown.addresses if not address.startswith((url, "data:", "blob:"))]
    assert elsewhere == []


@pytest.fixture
def chat(browser, server):  # pylint: disable=redefined-outer-name
    with chat_in(browser, server.url) as shown:
        yield shown.open()
