"""Conversations stay in the browser: reloading, renaming, deleting, files, and a browser that keeps nothing."""

import json

import pytest
from _model import ScriptedModel, stream
from conftest import chat_in, expect


def talk(chat, *questions):
    model = ScriptedModel(chat.page, stream("**Yes.**", reasoning="Sure."))
    for question in questions:
        chat.ask(question)
        chat.expect_end()
    return model


def export(chat):
    with chat.page.expect_download() as download:
        chat.button("Export").click()
    return json.loads(download.value.path().read_text(encoding="utf-8"))


def give(chat, content, name="given.json"):
    text = content if isinstance(content, str) else json.dumps(content)
    chat.page.locator("#import-file").set_input_files(
        {"name": name, "mimeType": "application/json", "buffer": text.encode()})


def test_conversations_survive_a_reload(chat):
    talk(chat, "First?", "Second?")
    chat.button("New conversation").click()
    expect(chat.questions).to_have_count(0)
    chat.ask("Other?")
    chat.expect_end()
    chat.open()
    expect(chat.page.locator("#conversations .open")).to_have_text(["Other?", "First?"])
    expect(chat.questions.locator("p")).to_have_text(["Other?"])
    chat.button("First?").click()
    expect(chat.questions.locator("p")).to_have_text(["First?", "Second?"])
    expect(chat.replies.last.locator("strong")).to_have_text("Yes.")


def test_a_system_prompt_belongs_to_its_conversation(chat):
    model = talk(chat, "First?")
    chat.button("Settings").click()
    chat.page.get_by_label("System prompt of this conversation").fill("Be brief.")
    chat.button("Done").click()
    chat.ask("Second?")
    chat.expect_end()
    assert model.requests[1]["messages"][0] == {"role": "system", "content": "Be brief."}
    chat.open()
    chat.button("Settings").click()
    expect(chat.page.get_by_label("System prompt of this conversation")).to_have_value("Be brief.")


def test_a_conversation_can_be_renamed(chat):
    talk(chat, "First?")
    chat.button("Rename First?").click()
    expect(chat.page.get_by_role("textbox", name="Name")).to_be_focused()
    chat.page.get_by_role("textbox", name="Name").fill("Better")
    chat.page.keyboard.press("Enter")
    expect(chat.page.locator("#title")).to_have_text("Better")
    chat.open()
    expect(chat.button("Better")).to_be_visible()


def test_a_conversation_is_deleted_only_when_it_is_meant(chat):
    talk(chat, "First?")
    chat.button("Delete First?").click()
    chat.button("Cancel").click()
    expect(chat.button("First?")).to_be_visible()
    chat.button("Delete First?").click()
    chat.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(chat.button("First?")).to_have_count(0)
    expect(chat.questions).to_have_count(0)
    chat.open()
    expect(chat.page.locator("#conversations li")).to_have_count(0)


def test_an_export_can_be_imported_and_exported_again(chat):
    talk(chat, "First?")
    before = export(chat)
    assert before["format"] == "perigee-conversations" and before["version"] == 1
    message = before["conversations"][0]["messages"][1]
    assert (message["content"], message["reasoning"], message["usage"]["completion"]) == ("**Yes.**", "Sure.", 11)
    give(chat, before)
    expect(chat.page.locator("#conversations .open")).to_have_text(["First?", "First?"])
    after = export(chat)["conversations"]
    assert len({conversation.pop("id") for conversation in after}) == 2  # an import overwrites nothing
    assert after[0] == after[1]


def archive(**changes):
    conversation = {"title": "Given", "messages": [{"role": "user", "content": "Hi"}], **changes}
    return {"format": "perigee-conversations", "version": 1, "conversations": [conversation]}


@pytest.mark.parametrize("content, complaint", [
    ("not json", "the file is no JSON"),
    ([], "the file must be an object"),
    ({"format": "other"}, 'format must be "perigee-conversations"'),
    ({**archive(), "version": 2}, "version must be 1"),
    ({**archive(), "conversations": {}}, "conversations must be a list"),
    (archive(title=7), "conversations[0].title must be text"),
    (archive(messages=[{"role": "system", "content": "x"}]), "messages[0].role must be user, assistant or tool"),
    (archive(messages=[{"role": "user"}]), "messages[0].content must be text"),
    (archive(messages=[{"role": "user", "content": "x", "images": ["https://elsewhere.example/a.png"]}]),
     "messages[0].images[0] must be an image as a data URL"),
    (archive(messages=[{"role": "assistant", "content": "x", "calls": [{"id": "a", "name": 1}]}]),
     "messages[0].calls[0].name must be text"),
    (archive(messages=[{"role": "assistant", "content": "x", "usage": {"prompt": "many"}}]),
     "messages[0].usage.prompt must be a number"),
    (archive(messages=[{"role": "__proto__", "content": "x"}]), "messages[0].role must be"),
])
def test_a_file_that_is_no_export_is_refused_with_its_place(chat, content, complaint):
    give(chat, content)
    expect(chat.page.locator("#notices")).to_contain_text(complaint)
    expect(chat.page.locator("#conversations li")).to_have_count(0)


def test_unknown_fields_of_a_file_are_left_behind(chat):
    give(chat, archive(onclick="alert(1)", id="../../x"))
    expect(chat.button("Given")).to_be_visible()
    assert set(export(chat)["conversations"][0]) == {"id", "title", "named", "created", "changed", "system", "messages"}


def test_a_full_disk_is_told_and_stops_nothing(browser, server):
    with chat_in(browser, server.url) as chat:
        chat.page.add_init_script(
            "IDBObjectStore.prototype.put = () => { throw new DOMException('full', 'QuotaExceededError'); };")
        chat.open()
        talk(chat, "First?", "Second?")
        expect(chat.page.locator("#notices p")).to_have_count(1)
        expect(chat.page.locator("#notices")).to_contain_text("storage is full")
        expect(chat.replies).to_have_count(2)


def test_a_browser_that_keeps_nothing_is_told_of_and_works(browser, server):
    with chat_in(browser, server.url) as chat:
        chat.page.add_init_script(
            "for (const name of ['localStorage', 'sessionStorage', 'indexedDB'])"
            " Object.defineProperty(window, name, { get() { throw new DOMException('no', 'SecurityError'); } });")
        chat.open()
        expect(chat.page.locator("#notices")).to_contain_text("keeps no conversations")
        talk(chat, "First?")
        expect(chat.button("First?")).to_be_visible()


def test_a_reply_that_was_under_way_at_a_reload_has_ended(chat):
    give(chat, archive(messages=[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "We", "finish": None}]))
    expect(chat.button("Given")).to_be_visible()
    chat.open()
    chat.button("Given").click()
    expect(chat.replies.first).to_have_attribute("aria-busy", "false")
    expect(chat.replies.first.locator(".trouble")).to_have_text("Stopped.")
