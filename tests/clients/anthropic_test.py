"""The official anthropic package against the server: messages, streams, thinking, tools, counting, errors."""

import asyncio
import json

import anthropic
import pytest
from _ask import ADDITION, CALCULATE_TOOL, SUM, WEATHER_TOOL, user
from _server import serving

GREEDY = {"extra_body": {"temperature": 0}}  # the package knows no temperature any more, the dialect does
EFFORT = {"output_config": {"effort": "low"}}
REQUEST = {"model": "nano", "max_tokens": 300, "messages": ADDITION, **GREEDY, **EFFORT}


def anthropic_tool(tool):
    function = tool["function"]
    return {
        "name": function["name"],
        "description": function["description"],
        "input_schema": function["parameters"],
    }


TOOLS = [anthropic_tool(tool) for tool in (CALCULATE_TOOL, WEATHER_TOOL)]


def client_of(server, kind=anthropic.Anthropic, key="none is needed"):
    return kind(base_url=server.url, api_key=key, max_retries=0, timeout=120)


@pytest.fixture
def client(server):
    with client_of(server) as client:
        yield client


def text_of(message):
    return "".join(block.text for block in message.content if block.type == "text")


def thinking_of(message):
    return "".join(block.thinking for block in message.content if block.type == "thinking")


def test_answers_with_thought_and_usage(client):
    message = client.messages.create(**REQUEST)
    assert (message.type, message.role, message.model, message.stop_reason) == (
        "message",
        "assistant",
        "nano",
        "end_turn",
    )
    assert [block.type for block in message.content] == ["thinking", "text"]
    assert text_of(message) == SUM and thinking_of(message)
    assert message.usage.input_tokens + (message.usage.cache_read_input_tokens or 0) > 10
    assert message.usage.output_tokens > 5


def test_answers_async_clients(server):
    async def ask():
        async with client_of(server, anthropic.AsyncAnthropic) as client:
            return await asyncio.gather(*(client.messages.create(**REQUEST) for _ in range(3)))

    assert [text_of(message) for message in asyncio.run(ask())] == [SUM] * 3


def test_the_stream_helper_accumulates(client):
    whole = client.messages.create(**REQUEST)
    with client.messages.stream(**REQUEST) as stream:
        events = list(stream)
        final = stream.get_final_message()
    assert text_of(final) == text_of(whole) == "".join(event.text for event in events if event.type == "text")
    assert thinking_of(final) == thinking_of(whole)
    assert thinking_of(final) == "".join(event.thinking for event in events if event.type == "thinking")
    assert (final.stop_reason, final.usage.output_tokens) == ("end_turn", whole.usage.output_tokens)


def test_streams_to_async_clients(server):
    async def ask():
        async with client_of(server, anthropic.AsyncAnthropic) as client, client.messages.stream(**REQUEST) as stream:
            return "".join([text async for text in stream.text_stream])

    assert asyncio.run(ask()) == SUM


def test_raw_events_come_in_their_order(client):
    kinds = [event.type for event in client.messages.create(**REQUEST, stream=True) if event.type != "ping"]
    assert kinds[0] == "message_start" and kinds[-2:] == ["message_delta", "message_stop"]
    inner = kinds[1:-2]
    assert inner.count("content_block_start") == inner.count("content_block_stop") == 2  # thinking, text
    depth = 0
    for kind in inner:
        depth += {"content_block_start": 1, "content_block_stop": -1, "content_block_delta": 0}[kind]
        assert depth in (0, 1) and (depth == 1 or kind == "content_block_stop")


def test_does_not_think_when_told_not_to(client):
    fields = {key: value for key, value in REQUEST.items() if key != "output_config"}
    message = client.messages.create(**fields | {"messages": user("Hello, Nano.")}, thinking={"type": "disabled"})
    assert [block.type for block in message.content] == ["text"]


def test_a_budget_bounds_the_thought(client):
    fields = {key: value for key, value in REQUEST.items() if key != "output_config"}
    short = client.messages.create(**fields, thinking={"type": "enabled", "budget_tokens": 10})
    free = client.messages.create(**fields, thinking={"type": "adaptive"})
    assert thinking_of(free).startswith(thinking_of(short))
    assert len(thinking_of(short)) < len(thinking_of(free))


def test_goes_on_behind_its_own_thought(client):
    first = client.messages.create(**REQUEST)
    history = [*ADDITION, {"role": "assistant", "content": first.content}, *user("What is 20 + 22?")]
    message = client.messages.create(**REQUEST | {"messages": history})
    assert message.content and message.usage.cache_read_input_tokens > 0


@pytest.mark.parametrize("stream", [False, True])
def test_calls_a_tool_and_tells_the_result(client, stream):
    def ask(messages):
        fields = {**REQUEST, "messages": messages, "tools": TOOLS}
        if not stream:
            return client.messages.create(**fields)
        with client.messages.stream(**fields) as events:
            return events.get_final_message()

    told = []
    for city, sky in (("Paris", "sunny"), ("Rome", "clear"), ("London", "rainy")):
        question = user(f"What is the weather in {city}?")
        message = ask(question)
        calls = [block for block in message.content if block.type == "tool_use"]
        if [(call.name, call.input) for call in calls] != [("get_weather", {"city": city})]:
            continue
        assert message.stop_reason == "tool_use"
        result = {
            "type": "tool_result",
            "tool_use_id": calls[0].id,
            "content": json.dumps({"temperature": 21, "sky": sky}),
        }
        turns = [*question, {"role": "assistant", "content": message.content}, {"role": "user", "content": [result]}]
        told.append(text_of(ask(turns)))
    assert any("21" in text for text in told), told


def test_must_call_the_named_tool(client):
    message = client.messages.create(
        **REQUEST | {"messages": user("Hello.")}, tools=TOOLS, tool_choice={"type": "tool", "name": "calculate"}
    )
    (call,) = [block for block in message.content if block.type == "tool_use"]
    assert call.name == "calculate" and isinstance(call.input["expression"], str)


def test_counts_tokens_as_it_will_charge_them(client):
    fields = {key: value for key, value in REQUEST.items() if key not in ("max_tokens", "extra_body")}
    counted = client.messages.count_tokens(**fields, system="Be brief.", tools=TOOLS).input_tokens
    usage = client.messages.create(**REQUEST | {"max_tokens": 1}, system="Be brief.", tools=TOOLS).usage
    assert counted == usage.input_tokens + (usage.cache_read_input_tokens or 0)


def test_stops_at_a_sequence(client):
    message = client.messages.create(**REQUEST, stop_sequences=["= "])
    assert text_of(message) == SUM.split("= ", maxsplit=1)[0]
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "= ")


def test_ends_at_the_limit(client):
    message = client.messages.create(**REQUEST | {"max_tokens": 5})
    assert (message.stop_reason, message.usage.output_tokens) == ("max_tokens", 5)


def test_lists_its_model(client):
    assert "nano" in [model.id for model in client.models.list()]


BAD_REQUESTS = {
    "no messages": {"messages": []},
    "an unknown role": {"messages": [{"role": "robot", "content": "x"}]},
    "a temperature out of range": {"extra_body": {"temperature": 3}},
    "a limit of nothing": {"max_tokens": 0},
    "a result of no call": {
        "messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "y"}]}]
    },
}


@pytest.mark.parametrize("name", BAD_REQUESTS)
def test_a_bad_request_says_what_is_wrong(client, name):
    with pytest.raises(anthropic.BadRequestError) as error:
        client.messages.create(**REQUEST | BAD_REQUESTS[name])
    assert error.value.body["error"]["type"] == "invalid_request_error" and error.value.body["error"]["message"]


def test_a_long_prompt_is_called_so(client):
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long"):
        client.messages.create(**REQUEST | {"messages": user("many words " * 5000)})


def test_an_unknown_model_is_not_found(client):
    with pytest.raises(anthropic.NotFoundError):
        client.messages.create(**REQUEST | {"model": "claude"})


def test_a_wrong_key_is_refused():
    with serving("--api-key", "right") as keyed:
        with pytest.raises(anthropic.AuthenticationError):
            client_of(keyed, key="wrong").messages.create(**REQUEST)
        assert client_of(keyed, key="right").messages.create(**REQUEST | {"max_tokens": 1}).content is not None
