"""Asking and being answered: streams, thinking, tools, stopping, answering again, editing, errors."""

import json
import re

import pytest
from _model import EndlessModel, ScriptedModel, stream
from conftest import QUICK, chat_in, expect
from _server import serving


def containing(text):
    return re.compile(re.escape(text))


def test_a_question_streams_and_is_answered(chat):
    chat.choose(**QUICK)
    chat.page.evaluate("""() => {
      window.lengths = new Set();
      const look = () => window.lengths.add(document.querySelector("article.reply")?.textContent.length ?? 0);
      new MutationObserver(look).observe(document.getElementById("log"), { childList: true, subtree: true, characterData: true });
    }""")
    chat.ask("What is 17 + 25?")
    reply = chat.expect_end()
    expect(reply.locator("> .text")).to_have_text("17 + 25 = 42")
    assert chat.page.evaluate("() => window.lengths.size") > 2  # it grew while it came
    expect(reply.locator(".cost")).to_contain_text("tokens/s")
    expect(chat.composer).to_be_focused()
    expect(chat.page.locator("#announcer")).to_contain_text("17 + 25 = 42")


def test_thinking_is_open_while_it_streams(chat):
    with EndlessModel({"reasoning_content": "hm "}) as endless:
        chat.page.route("**/v1/chat/completions", lambda route: route.continue_(url=endless.url))
        chat.ask("Well?")
        expect(chat.replies.last.locator(".thinking .text")).to_be_visible()
        expect(chat.replies.last.locator("summary")).to_contain_text("Thinking …")
        chat.button("Stop").click()
        chat.expect_end()


def test_thinking_is_folded_once_there_is_an_answer(chat):
    ScriptedModel(chat.page, stream("Yes.", reasoning="Let me think about it."))
    chat.ask("Well?")
    thinking = chat.expect_end().locator(".thinking")
    expect(thinking.locator(".text")).to_be_hidden()
    expect(thinking.locator("summary")).to_contain_text("Thought for")
    thinking.locator("summary").click()
    expect(thinking.locator(".text")).to_have_text("Let me think about it.")


def test_thinking_can_be_switched_off(chat):
    chat.choose(**QUICK)
    chat.page.get_by_label("Thinking").select_option("off")
    chat.ask("What is 17 + 25?")
    expect(chat.expect_end().locator(".thinking")).to_be_hidden()
    chat.page.reload()
    expect(chat.page.get_by_label("Thinking")).to_have_value("off")


def test_effort_sampling_and_system_prompt_are_sent_as_chosen(chat):
    model = ScriptedModel(chat.page, stream("Yes."))
    chat.button("Settings").click()
    for label, value in (("Temperature", "0.5"), ("Top p", "0.9"), ("Top k", "40"), ("Seed", "7"),
                         ("Most tokens of a reply", "99"), ("System prompt of this conversation", "Be brief.")):
        chat.page.get_by_label(label).fill(value)
    chat.button("Done").click()
    chat.page.get_by_label("Thinking").select_option("high")
    chat.ask("Well?")
    chat.expect_end()
    sent = model.requests[0]
    assert {key: sent[key] for key in ("temperature", "top_p", "top_k", "seed", "max_tokens", "reasoning_effort")} == {
        "temperature": 0.5, "top_p": 0.9, "top_k": 40, "seed": 7, "max_tokens": 99, "reasoning_effort": "high"}
    assert sent["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Well?"}]
    assert "tools" not in sent and sent["model"] == "nano"


def test_what_is_not_chosen_is_left_to_the_server(chat):
    model = ScriptedModel(chat.page, stream("Yes."))
    chat.ask("Well?")
    chat.expect_end()
    assert set(model.requests[0]) == {"model", "messages", "stream", "stream_options", "reasoning_effort"}


def test_the_model_calls_a_tool_of_the_page_and_goes_on_with_its_result(chat):
    chat.choose(**QUICK)
    bodies = []
    chat.page.on("request", lambda request: request.method == "POST" and bodies.append(request.post_data_json))
    chat.page.get_by_role("switch", name="Demo tools").check()
    chat.ask("What is 18 * 4?")
    chat.expect_end()
    call = chat.replies.first.locator(".call")
    expect(call.locator("summary")).to_contain_text("calculate")
    expect(call.locator("summary")).to_contain_text("→ 72")
    call.locator("summary").click()
    assert json.loads(call.get_by_label("Arguments").inner_text()) == {"expression": "18 * 4"}
    expect(call.get_by_label("Result")).to_have_text("72")
    assert len(bodies) >= 2
    assert [tool["function"]["name"] for tool in bodies[0]["tools"]] == ["calculate", "get_time"]
    assert bodies[1]["messages"][-1]["role"] == "tool" and bodies[1]["messages"][-1]["content"] == "72"
    assert bodies[1]["messages"][-2]["tool_calls"][0]["function"]["name"] == "calculate"


def test_calls_that_make_no_sense_are_answered_with_a_sentence(chat):
    calls = [("calculate", '{"expression": "2 +"}'), ("calculate", "{"), ("launch", "{}"), ("get_time", '{"timezone": "Mars"}')]
    model = ScriptedModel(chat.page, stream(calls=calls), stream("So be it."))
    chat.page.get_by_role("switch", name="Demo tools").check()
    chat.ask("Well?")
    chat.expect_end()
    results = [message["content"] for message in model.requests[1]["messages"] if message["role"] == "tool"]
    assert results[0] == "error: the expression ends too early"
    assert results[1].startswith("error: ")
    assert results[2:] == ["error: there is no tool launch", "error: there is no time zone Mars"]


def test_a_model_that_calls_tools_forever_is_stopped(chat):
    model = ScriptedModel(chat.page, stream(calls=[("calculate", '{"expression": "1+1"}')]))
    chat.page.get_by_role("switch", name="Demo tools").check()
    chat.ask("Well?")
    chat.expect_end()
    expect(chat.replies).to_have_count(8)
    ids = [message["tool_call_id"] for message in model.requests[-1]["messages"] if message["role"] == "tool"]
    assert len(set(ids)) == len(ids) == 7


def test_tools_are_not_run_when_they_are_switched_off(chat):
    ScriptedModel(chat.page, stream(calls=[("calculate", '{"expression": "1+1"}')]))
    chat.ask("Well?")
    expect(chat.expect_end().locator(".call summary")).to_contain_text("was not run")
    expect(chat.replies).to_have_count(1)


@pytest.mark.parametrize("expression, value", [
    ("2 + 3 * 4", 14), ("(2 + 3) * 4", 20), ("2^3^2", 512), ("-2^2", -4), ("7 % 4", 3), ("0.1 + 0.2", 0.3),
    ("sqrt(16) / 8", 0.5), ("1e3 - 1", 999), ("6 × 7", 42), ("2 ** 5", 32), ("-(3 - 5)", 2), ("abs(-4)", 4),
])
def test_expressions_are_calculated(chat, expression, value):
    found = chat.page.evaluate("async text => (await import('/web/js/calculate.js')).calculate(text)", expression)
    assert found == pytest.approx(value, rel=1e-14)


def test_a_reply_can_be_stopped(chat):
    with EndlessModel({"content": "word "}) as endless:
        chat.page.route("**/v1/chat/completions", lambda route: route.continue_(url=endless.url))
        chat.ask("Well?")
        expect(chat.replies.last).to_contain_text("word word word")
        chat.button("Stop").click()
        reply = chat.expect_end()
        expect(reply.locator(".trouble")).to_have_text("Stopped.")
        assert endless.client_left.wait(10)
        expect(chat.composer).to_be_focused()


def test_a_reply_can_be_asked_for_again(chat):
    model = ScriptedModel(chat.page, stream("The first."), stream("The second."))
    chat.ask("Well?")
    chat.expect_end()
    chat.button("Answer again").click()
    expect(chat.replies).to_have_text([containing("The second.")])
    assert model.requests[0]["messages"] == model.requests[1]["messages"]


def test_an_edited_question_replaces_what_came_after_it(chat):
    model = ScriptedModel(chat.page, stream("One."), stream("Two."), stream("Three."))
    for question in ("First?", "Second?"):
        chat.ask(question)
        chat.expect_end()
    expect(chat.replies).to_have_count(2)
    chat.button("Edit and ask again", chat.questions.first).click()
    editor = chat.page.get_by_label("Edit the question")
    expect(editor).to_be_focused()
    editor.fill("Another?")
    chat.button("Ask again").click()
    chat.expect_end()
    expect(chat.questions.locator("p")).to_have_text(["Another?"])
    expect(chat.replies).to_have_text([containing("Three.")])
    assert model.requests[2]["messages"] == [{"role": "user", "content": "Another?"}]


def test_an_edit_can_be_given_up(chat):
    ScriptedModel(chat.page, stream("One."))
    chat.ask("First?")
    chat.expect_end()
    chat.button("Edit and ask again").click()
    chat.page.get_by_label("Edit the question").fill("Another?")
    chat.page.keyboard.press("Escape")
    expect(chat.questions.locator("p")).to_have_text(["First?"])
    expect(chat.replies).to_have_count(1)


def test_a_conversation_can_branch(chat):
    ScriptedModel(chat.page, stream("One."), stream("Two."))
    for question in ("First?", "Second?"):
        chat.ask(question)
        chat.expect_end()
    chat.button("Continue in a new conversation", chat.replies.first).click()
    expect(chat.questions).to_have_count(1)
    expect(chat.replies).to_have_count(1)
    expect(chat.page.locator("#conversations li")).to_have_count(2)


def test_reasoning_goes_back_to_the_model(chat):
    model = ScriptedModel(chat.page, stream("Four.", reasoning="Two and two."))
    for question in ("First?", "Second?"):
        chat.ask(question)
        chat.expect_end()
    assert model.requests[1]["messages"][1] == {
        "role": "assistant", "content": "Four.", "reasoning_content": "Two and two."}


def test_a_refusal_is_told_and_not_sent_again(chat):
    error = json.dumps({"error": {"message": "the queue is full", "type": "x", "param": None, "code": None}})
    model = ScriptedModel(chat.page, error, status=429)
    chat.ask("Well?")
    expect(chat.expect_end().locator(".trouble")).to_contain_text("the queue is full")
    model.status, model.streams = 200, [stream("Now.")]
    chat.ask("And now?")
    expect(chat.expect_end()).to_contain_text("Now.")
    assert [message["role"] for message in model.requests[1]["messages"]] == ["user", "user"]
    chat.forgive("429")


def test_an_error_in_the_middle_of_a_stream_keeps_what_was_said(chat):
    cut = stream("All of it.").split("data: [DONE]")[0].split('"finish_reason": "stop"')[0].rsplit("data: ", 1)[0]
    ScriptedModel(chat.page, cut + 'data: {"error": {"message": "the disk failed", "code": 500}}\n\ndata: [DONE]\n\n')
    chat.ask("Well?")
    reply = chat.expect_end()
    expect(reply.locator("> .text")).to_have_text("All of it.")
    expect(reply.locator(".trouble")).to_contain_text("the disk failed")


def test_a_server_with_a_key_asks_for_it(browser, server):  # pylint: disable=unused-argument
    with serving("--api-key", "sesame") as keyed, chat_in(browser, keyed.url) as chat:
        chat.page.goto(keyed.url)
        dialog = chat.page.get_by_role("dialog", name="This server wants a key")
        expect(dialog).to_be_visible()
        dialog.get_by_label("Key").fill("wrong")
        dialog.get_by_role("button", name="Use it").click()
        expect(dialog.get_by_label("Key")).to_have_value("wrong")  # it asks again
        dialog.get_by_label("Key").fill("sesame")
        chat.page.keyboard.press("Enter")
        expect(chat.page.locator("body[data-ready]")).to_be_attached()
        expect(chat.composer).to_have_attribute("placeholder", "Ask nano")
        chat.choose(**QUICK)  # reloads; the key is still known
        chat.ask("What is 17 + 25?")
        expect(chat.expect_end()).to_contain_text("42")
        assert chat.page.evaluate("() => JSON.stringify(localStorage)").count("sesame") == 0
        chat.forgive("401")


def test_images_are_refused_where_the_model_sees_none(chat):
    expect(chat.button("Image")).to_be_disabled()
    expect(chat.page.get_by_text("This model sees no images.")).to_be_visible()


def test_images_are_sent_where_the_model_sees(chat):
    model = ScriptedModel(chat.page, stream("A dot."))
    served = {"object": "list", "data": [{"id": "nano", "supports_image_in": True}]}
    chat.page.route("**/v1/models", lambda route: route.fulfill(json=served))
    chat.open()
    dot = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489")
    chat.page.locator("#image-file").set_input_files({"name": "dot.png", "mimeType": "image/png", "buffer": dot})
    expect(chat.page.locator("#images img")).to_have_count(1)
    chat.page.locator("#image-file").set_input_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"a"})
    expect(chat.page.locator("#notices")).to_contain_text("a.txt is no PNG")
    chat.ask("What is this?")
    chat.expect_end()
    image, text = model.requests[0]["messages"][0]["content"]
    assert image["image_url"]["url"].startswith("data:image/png;base64,iVBOR")
    assert text == {"type": "text", "text": "What is this?"}
    expect(chat.page.locator("#images img")).to_have_count(0)
