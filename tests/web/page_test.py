"""The page itself: its headers, the machine view, keyboard, screen readers, narrow screens, light and dark."""

import pytest
from _model import ScriptedModel, stream
from axe_playwright_python.sync_playwright import Axe
from conftest import chat_in, expect
from content_test import MARKDOWN


def test_the_page_forbids_everything_from_elsewhere(chat):
    headers = chat.page.request.get(chat.url).headers  # not what the browser has kept
    assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    blocked = chat.page.evaluate("""() => fetch("https://elsewhere.example/").then(() => false, () => true)""")
    assert blocked
    chat.forgive("Content Security Policy")


def state(**changes):
    experts = {"home": "streamed",
               "memory": {"trunk_bytes": 60e9, "state_bytes": 2e9, "activation_bytes": 1e9, "expert_bytes": 35e9,
                          "slots": 2000, "prompt_chunk": 512},
               "asked": 100, "hits": {"pinned": 40, "pool": 20, "prefetch": 5}, "joined": 5, "misses": 30,
               "bytes": {"used": 2e12, "read_demand": 5e11, "read_prefetch": 1e11}, "disk_bytes_per_second": 2.4e9}
    whole = {"model": "k3", "context_tokens": 1048576,
             "jobs": {"running": 3, "waiting": 2, "finished": 10, "cancelled": 1, "failed": 0, "refused": 4},
             "tokens": {"prompt": 60, "cached": 20, "generated": 40, "prompt_per_second": 12.0, "generated_per_second": 1.5},
             "state_memory": {"reserved_bytes": 5e8, "bytes": 1e9},
             "prefixes": {"in_memory": 3, "memory_bytes": 1e6, "in_folder": 0, "folder_bytes": 0, "hits": 3, "misses": 1},
             "machine": {"backend": "avx512", "threads": 16, "precision": "bf16", "most_running": 16, "most_waiting": 64,
                         "routed_experts": 82432, "limits": {"memory_bytes_per_second": 2e11, "disk_bytes_per_second": 3e9},
                         "experts": experts}}
    return {**whole, **changes}


def test_the_machine_view_shows_this_server(chat):
    chat.page.get_by_role("link", name="Machine").click()
    machine = chat.page.locator("#machine")
    expect(machine.locator(".lead")).to_contain_text("nano: 4,096 tokens of context, avx")
    expect(machine.get_by_text("experts are in memory")).to_be_visible()
    expect(machine.locator("section", has_text="Sequences").locator(".number").first).to_have_text("0 of 16")
    expect(machine.get_by_role("heading", name="Disk").first).to_be_visible()


def test_the_machine_view_shows_what_streaming_does(chat):
    later = state()
    later["machine"] = {**later["machine"], "experts": {
        **later["machine"]["experts"], "hits": {"pinned": 50, "pool": 20, "prefetch": 5}, "misses": 40,
        "bytes": {"used": 2e12, "read_demand": 5.01e11, "read_prefetch": 1e11}}}
    answers = [state(), later]
    chat.page.route("**/v1/state", lambda route: route.fulfill(json=answers.pop(0) if len(answers) > 1 else answers[0]))
    chat.open("/#machine")

    def card(title):
        return chat.page.locator("section.card").filter(has=chat.page.get_by_role("heading", name=title, exact=True, level=2))
    expect(card("Speed").locator(".number").first).to_have_text("1.5")
    expect(card("Sequences").locator(".number")).to_have_text(["3 of 16", "2 of 64"])
    expect(card("Tiers")).to_contain_text("82,432 experts (1.4 TB), 2,000 of which memory holds at a time.")
    expect(card("Tiers").locator("dd").first).to_have_text("60.0 GB · 61 %")
    expect(card("Where experts come from").locator("dd").first).to_have_text("40 %")
    expect(card("Where experts come from").locator(".number")).to_have_text("63 %")  # 65 of 100, then 10 of 20
    expect(card("Disk")).to_contain_text("of the 3.0 GB/s that this drive was measured at")
    expect(card("Disk").locator("dd")).to_have_text(["20.0 GB", "6.0 GB"])
    expect(card("Prompts kept").locator("dd").first).to_have_text("3 · 75 %")


def test_a_server_that_is_gone_is_told_of(chat):
    chat.page.route("**/v1/state", lambda route: route.abort())
    chat.open("/#machine")
    expect(chat.page.locator(".lead")).to_contain_text("the server does not answer")
    chat.forgive("ERR_FAILED")


def test_everything_can_be_done_with_the_keyboard(chat):
    ScriptedModel(chat.page, stream("One.", reasoning="Hm."), stream("Two."))
    keyboard = chat.page.keyboard
    chat.button("New conversation").focus()
    keyboard.press("Shift+Tab")
    expect(chat.page.get_by_text("Skip to the message field")).to_be_focused()
    keyboard.press("Enter")
    keyboard.type("A question")
    keyboard.press("Shift+Enter")
    keyboard.type("of two lines")
    keyboard.press("Enter")
    chat.expect_end()
    expect(chat.questions.locator("p")).to_have_text("A question\nof two lines", use_inner_text=True)
    reached = []
    chat.button("New conversation").focus()
    for _ in range(30):
        keyboard.press("Tab")
        reached.append(chat.page.evaluate("""() => {
          const node = document.activeElement;
          if (node === document.body) return ["", true]; // behind the last and before the first
          const box = node.getBoundingClientRect();
          const outlined = getComputedStyle(node).outlineStyle !== "none" || node.closest("#composer") !== null;
          return [node.getAttribute("aria-label") || node.id || node.textContent.trim(), outlined && box.width > 0];
        }"""))
    assert all(visible for name, visible in reached if name), "a place with the focus that cannot be seen"
    names = [name for name, _ in reached]
    for name in ("Rename A question", "Delete A question", "export", "import", "show-machine", "Settings", "Answer again",
                 "Edit and ask again", "effort", "demo-tools", "send"):
        assert name in names, f"{name} is not among {names}"
    chat.button("Settings").focus()
    keyboard.press("Enter")
    expect(chat.page.get_by_label("System prompt of this conversation")).to_be_focused()
    keyboard.press("Escape")
    expect(chat.button("Settings")).to_be_focused()


def test_screen_readers_find_landmarks_and_names(chat):
    ScriptedModel(chat.page, stream("One."))
    chat.ask("A question")
    chat.expect_end()
    page = chat.page
    for role, name in (("complementary", "Conversations"), ("main", "Chat"), ("log", "Messages"), ("navigation", "Views"),
                       ("textbox", "Message"), ("combobox", "Thinking"), ("switch", "Demo tools"), ("article", "Reply")):
        expect(page.get_by_role(role, name=name, exact=True)).to_be_visible()
    expect(page.locator("#announcer")).to_have_attribute("aria-live", "polite")
    expect(page.locator("#announcer")).to_contain_text("End of the reply.")
    expect(page.get_by_role("button", name="A question", exact=True)).to_have_attribute("aria-current", "true")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser, server, scheme):
    with chat_in(browser, server.url, color_scheme=scheme) as chat:
        chat.open()
        ScriptedModel(chat.page, stream(MARKDOWN, reasoning="Hm."))
        chat.ask("A question")
        chat.expect_end()
        expect_no_violations(chat)
        chat.button("Settings").click()
        expect_no_violations(chat)
        chat.page.keyboard.press("Escape")
        chat.page.route("**/v1/state", lambda route: route.fulfill(json=state()))
        chat.page.get_by_role("link", name="Machine").click()
        expect(chat.page.get_by_role("heading", name="Where experts come from")).to_be_visible()
        expect_no_violations(chat)


def expect_no_violations(chat):
    found = Axe().run(chat.page)
    assert found.violations_count == 0, found.generate_report()


WIDE = ("```\n" + "long line " * 60 + "\n```\n\n$$" + "a+" * 200 + "b$$\n\n" + "|" + " wide column |" * 20 + "\n" + "|-" * 20 + "|\n\n" +
        "unbroken" * 60)


def test_a_narrow_screen_scrolls_only_what_is_wide(browser, server):
    with chat_in(browser, server.url) as chat:
        chat.page.set_viewport_size({"width": 360, "height": 640})
        chat.open()
        ScriptedModel(chat.page, stream(WIDE, reasoning=WIDE))
        chat.ask("unbroken" * 60)
        chat.expect_end().locator(".thinking summary").click()
        for path in ("/#chat", "/#machine"):
            chat.page.goto(chat.url + path)
            assert chat.page.evaluate("() => document.scrollingElement.scrollWidth") <= 360
            assert chat.page.evaluate("() => document.getElementById('log').scrollWidth - document.getElementById('log').clientWidth") <= 0
        chat.page.goto(chat.url + "/#chat")
        expect(chat.button("New conversation")).to_be_hidden()
        chat.button("Conversations").click()
        expect(chat.button("New conversation")).to_be_focused()
        chat.page.keyboard.press("Escape")
        expect(chat.button("New conversation")).to_be_hidden()
        expect(chat.button("Conversations")).to_be_focused()


def brightness(chat):
    colour = chat.page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    return sum(map(int, colour.strip("rgb()").split(","))) / 3


def test_colours_follow_the_system_until_the_user_chooses(browser, server):
    with chat_in(browser, server.url, color_scheme="dark") as chat:
        chat.open()
        assert brightness(chat) < 60
        chat.page.emulate_media(color_scheme="light")
        assert brightness(chat) > 200
        chat.button("Colours: system").click()
        chat.button("Colours: light").click()
        expect(chat.button("Colours: dark")).to_be_focused()
        assert brightness(chat) < 60
        chat.open()
        assert brightness(chat) < 60
        chat.button("Colours: dark").click()
        assert brightness(chat) > 200
