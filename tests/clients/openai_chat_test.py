"""The official openai package against the server: conversations, streams, tools, formats, errors.

What nano says is asked for only where it was trained to say it; elsewhere the form of the answer is looked at.
"""

import asyncio
import json
import math
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import openai
import pytest
from _ask import ADDITION, PERSON, SUM, WEATHER_TOOL, long_reply, user
from _server import serving
from pydantic import BaseModel, Field

NO_KEY = "none is needed"


def client_of(server, **options):
    return openai.OpenAI(base_url=server.v1, api_key=NO_KEY, max_retries=0, timeout=120, **options)


@pytest.fixture
def client(server):
    with client_of(server) as client:
        yield client


class Person(BaseModel):
    animal: Literal["cat", "dog", "bird", "fish"]
    city: str = Field(max_length=20)


class Basket(BaseModel):
    """What nano was never asked for, so that only the grammar can have made it."""

    fruits: list[Literal["apple", "pear"]] = Field(min_length=2, max_length=3)
    size: int = Field(ge=10, le=99)
    owner: Person | None
    sold: bool


def test_lists_its_model(client):
    (model,) = client.models.list()
    assert (model.id, model.object) == ("nano", "model")
    assert client.models.retrieve("nano").id == "nano"


def test_answers_with_thought_and_usage(client):
    answer = client.chat.completions.create(model="nano", messages=ADDITION, temperature=0, reasoning_effort="low")
    (choice,) = answer.choices
    assert (answer.object, answer.model, choice.finish_reason) == ("chat.completion", "nano", "stop")
    assert choice.message.content == SUM
    assert choice.message.reasoning_content
    usage = answer.usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert 0 < usage.completion_tokens_details.reasoning_tokens < usage.completion_tokens


def test_answers_many_at_once(server):
    async def ask():
        async with openai.AsyncOpenAI(base_url=server.v1, api_key=NO_KEY, max_retries=0, timeout=120) as client:
            create = client.chat.completions.create
            return await asyncio.gather(
                *(create(model="nano", messages=ADDITION, temperature=0, reasoning_effort="low") for _ in range(6))
            )

    assert [answer.choices[0].message.content for answer in asyncio.run(ask())] == [SUM] * 6


def joined(chunks):
    """Reasoning, content and the final reason of a stream."""
    deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    reasoning = "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas)
    content = "".join(delta.content or "" for delta in deltas)
    reasons = [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason]
    return reasoning, content, reasons


def test_a_stream_says_what_the_whole_answer_says(client):
    request = {"model": "nano", "messages": ADDITION, "temperature": 0}
    whole = client.chat.completions.create(**request)
    chunks = list(client.chat.completions.create(**request, stream=True, stream_options={"include_usage": True}))
    message = whole.choices[0].message
    assert joined(chunks) == (message.reasoning_content, message.content, ["stop"])
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


def test_streams_to_async_clients(server):
    async def ask():
        async with openai.AsyncOpenAI(base_url=server.v1, api_key=NO_KEY, max_retries=0, timeout=120) as client:
            stream = await client.chat.completions.create(
                model="nano", messages=ADDITION, temperature=0, reasoning_effort="low", stream=True
            )
            return [chunk async for chunk in stream]

    assert joined(asyncio.run(ask()))[1:] == (SUM, ["stop"])


def test_the_stream_helper_accumulates(client):
    with client.chat.completions.stream(model="nano", messages=ADDITION, temperature=0) as stream:
        events = list(stream)
        final = stream.get_final_completion()
    content = [event for event in events if event.type == "content.delta"]
    assert "".join(event.delta for event in content) == content[-1].snapshot == SUM
    assert [event.content for event in events if event.type == "content.done"] == [SUM]
    assert final.choices[0].message.content == SUM
    assert final.choices[0].finish_reason == "stop"


def test_the_stream_helper_accumulates_a_call(client):
    with client.chat.completions.stream(
        model="nano",
        messages=user("Tell me the weather in Paris."),
        tools=[WEATHER_TOOL],
        tool_choice="required",
        temperature=0,
    ) as stream:
        pieces = [event for event in stream if event.type == "tool_calls.function.arguments.delta"]
        final = stream.get_final_completion()
    (call,) = final.choices[0].message.tool_calls
    assert "".join(piece.arguments_delta for piece in pieces) == call.function.arguments
    assert call.function.name == "get_weather" and json.loads(call.function.arguments)
    assert final.choices[0].finish_reason == "tool_calls"


def test_leaving_a_stream_cancels_the_reply(server, client):
    jobs = server.state()["jobs"]
    before = jobs["finished"] + jobs["cancelled"]
    stream = client.chat.completions.create(model="nano", **long_reply(), stream=True)
    next(stream)
    stream.close()
    server.wait_until(
        lambda state: sum(state["jobs"][key] for key in ("finished", "cancelled")) == before + 1, "cancelled"
    )


@pytest.mark.parametrize("form", [Person, Basket])
def test_parses_structured_output(client, form):
    answer = client.chat.completions.parse(model="nano", messages=PERSON, response_format=form, seed=1, max_tokens=900)
    assert isinstance(answer.choices[0].message.parsed, form)


def test_streams_structured_output(client):
    with client.chat.completions.stream(
        model="nano", messages=PERSON, response_format=Person, reasoning_effort="none", seed=2, max_tokens=300
    ) as stream:
        (done,) = [event for event in stream if event.type == "content.done"]
    assert isinstance(done.parsed, Person)


def test_answers_with_a_json_object(client):
    """Whatever the model would say; what it fills the strings with is its own affair, so it may need many tokens."""
    for seed in range(3):
        answer = client.chat.completions.create(
            model="nano", messages=user("Hello."), response_format={"type": "json_object"}, seed=seed, max_tokens=150
        )
        (choice,) = answer.choices
        if choice.finish_reason == "stop":
            assert isinstance(json.loads(choice.message.content), dict)
        else:
            assert choice.finish_reason == "length" and (choice.message.content or "{").startswith("{")


def test_gives_logprobs(client):
    answer = client.chat.completions.create(
        model="nano", messages=ADDITION, temperature=0, logprobs=True, top_logprobs=3, reasoning_effort="low"
    )
    entries = answer.choices[0].logprobs.content
    assert len(entries) == answer.usage.completion_tokens
    for entry in entries:
        assert len(entry.top_logprobs) == 3
        assert entry.logprob <= 0 and entry.logprob == max(top.logprob for top in entry.top_logprobs)
        assert sum(math.exp(top.logprob) for top in entry.top_logprobs) < 1 + 1e-6
    assert SUM in b"".join(bytes(entry.bytes or b"") for entry in entries).decode()


def test_stops_at_a_string(client):
    answer = client.chat.completions.create(model="nano", messages=ADDITION, temperature=0, stop=["= "])
    assert answer.choices[0].message.content == SUM.split("= ", maxsplit=1)[0]
    assert answer.choices[0].finish_reason == "stop"


def test_ends_at_the_limit(client):
    answer = client.chat.completions.create(model="nano", messages=ADDITION, max_completion_tokens=5)
    assert (answer.usage.completion_tokens, answer.choices[0].finish_reason) == (5, "length")


def test_a_seed_gives_the_same_alone_and_in_company(client):
    def ask(seed):
        answer = client.completions.create(
            model="nano", prompt="letter", seed=seed, temperature=2, top_p=1, max_tokens=40, logprobs=0
        )
        return answer.choices[0].text, answer.choices[0].logprobs.token_logprobs

    seeds = [1, 2, 3, 4, 1, 2, 3, 4]
    with ThreadPoolExecutor(len(seeds)) as pool:
        together = list(pool.map(ask, seeds))
    assert together[:4] == together[4:]
    assert len({text for text, _ in together}) == 4
    assert ask(3) == together[2]


def test_completes_a_text(client):
    answer = client.completions.create(model="nano", prompt="One, two", max_tokens=8, temperature=0, logprobs=2)
    assert answer.usage.completion_tokens == 8 and answer.choices[0].finish_reason == "length"
    assert len(answer.choices[0].logprobs.tokens) == 8
    pieces = client.completions.create(model="nano", prompt="One, two", max_tokens=8, temperature=0, stream=True)
    assert "".join(chunk.choices[0].text for chunk in pieces if chunk.choices) == answer.choices[0].text


BAD_REQUESTS = {
    "no messages": ({"messages": []}, "messages"),
    "an unknown role": ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
    "a temperature out of range": ({"messages": ADDITION, "temperature": 3}, "temperature"),
    "a schema that cannot be followed": (
        {
            "messages": ADDITION,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "x", "strict": True, "schema": {"type": "integer", "multipleOf": 7}},
            },
        },
        "response_format",
    ),
    "more tokens than the context has": ({"messages": ADDITION, "max_tokens": 100000}, "max_tokens"),
    "several answers at once": ({"messages": ADDITION, "n": 2}, "n"),
}


@pytest.mark.parametrize("name", BAD_REQUESTS)
def test_a_bad_request_names_the_place(client, name):
    fields, place = BAD_REQUESTS[name]
    with pytest.raises(openai.BadRequestError) as error:
        client.chat.completions.create(model="nano", **fields)
    assert error.value.param.startswith(place)
    assert error.value.type == "invalid_request_error"


def test_a_long_prompt_has_the_code_for_it(client):
    with pytest.raises(openai.BadRequestError) as error:
        client.chat.completions.create(model="nano", messages=user("many words " * 5000))
    assert error.value.code == "context_length_exceeded"


def test_an_unknown_model_is_not_found(client):
    with pytest.raises(openai.NotFoundError) as error:
        client.chat.completions.create(model="gpt-9", messages=ADDITION)
    assert error.value.code == "model_not_found"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-9")


def test_a_wrong_key_is_refused():
    with serving("--api-key", "right") as server:
        with pytest.raises(openai.AuthenticationError):
            list(client_of(server).models.list())
        assert list(openai.OpenAI(base_url=server.v1, api_key="right").models.list())


def test_a_full_queue_is_a_rate_limit():
    with serving("--max-running", 1, "--max-waiting", 1) as server, ThreadPoolExecutor(2) as pool:
        client = client_of(server)
        streams = [client.chat.completions.create(model="nano", **long_reply(), stream=True)]
        next(streams[0])
        waiting = pool.submit(client.chat.completions.create, model="nano", messages=ADDITION, max_tokens=2)
        server.wait_until(lambda state: state["jobs"]["waiting"] == 1, "waiting")
        with pytest.raises(openai.RateLimitError) as error:
            client.chat.completions.create(model="nano", messages=ADDITION)
        assert int(error.value.response.headers["retry-after"]) >= 1
        streams[0].close()
        assert waiting.result().usage.completion_tokens == 2
        server.expect_idle()


def test_the_client_tries_again_when_the_queue_is_full():
    with serving("--max-running", 1, "--max-waiting", 1) as server:
        client = openai.OpenAI(base_url=server.v1, api_key=NO_KEY, max_retries=8, timeout=120)
        begin = time.monotonic()
        with ThreadPoolExecutor(5) as pool:
            answers = list(
                pool.map(
                    lambda seed: client.chat.completions.create(
                        model="nano", messages=ADDITION, max_tokens=10, seed=seed
                    ),
                    range(5),
                )
            )
        assert len(answers) == 5 and time.monotonic() - begin < 200
        assert server.state()["jobs"]["finished"] == 5
