"""LiteLLM as the client of three dialects: what programs send that know no server by name."""

import asyncio
import json
import os

import pytest
from _ask import ADDITION, SUM, WEATHER_TOOL, user
from _server import serving

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # read on import: no prices are fetched
import litellm  # noqa: E402

litellm.telemetry = False

OPENAI_LIKE = ["openai/nano", "hosted_vllm/nano"]
QUIET = {"api_key": "none is needed", "timeout": 120, "num_retries": 0, "max_retries": 0}


def options(server, model):
    return {"model": model, "api_base": server.v1, **QUIET}


@pytest.mark.parametrize("model", OPENAI_LIKE)
def test_answers(server, model):
    answer = litellm.completion(**options(server, model), messages=ADDITION, temperature=0)
    assert answer.choices[0].message.content == SUM
    assert answer.choices[0].message.reasoning_content
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


@pytest.mark.parametrize("model", OPENAI_LIKE)
def test_streams(server, model):
    chunks = list(
        litellm.completion(
            **options(server, model),
            messages=ADDITION,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    whole = litellm.stream_chunk_builder(chunks, messages=ADDITION)
    assert whole.choices[0].message.content == SUM
    assert whole.choices[0].message.reasoning_content
    assert whole.choices[0].finish_reason == "stop"


def test_answers_async_clients(server):
    async def ask():
        stream = await litellm.acompletion(
            **options(server, "openai/nano"), messages=ADDITION, temperature=0, stream=True
        )
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    assert asyncio.run(ask()) == SUM


@pytest.mark.parametrize("model", OPENAI_LIKE)
def test_calls_a_tool(server, model):
    answer = litellm.completion(
        **options(server, model),
        messages=user("Tell me the weather in Paris."),
        tools=[WEATHER_TOOL],
        tool_choice="required",
        temperature=0,
    )
    (call,) = answer.choices[0].message.tool_calls
    assert (call.function.name, answer.choices[0].finish_reason) == ("get_weather", "tool_calls")
    assert json.loads(call.function.arguments)["city"]


def test_speaks_anthropics_dialect(server):
    request = {"model": "anthropic/nano", "api_base": server.url, **QUIET, "messages": ADDITION, "temperature": 0}
    whole = litellm.completion(**request, max_tokens=300)
    assert whole.choices[0].message.content == SUM and whole.choices[0].message.reasoning_content
    chunks = list(litellm.completion(**request, max_tokens=300, stream=True))
    assert litellm.stream_chunk_builder(chunks).choices[0].message.content == SUM


def test_errors_have_its_own_classes(server):
    with pytest.raises(litellm.BadRequestError):
        litellm.completion(**options(server, "openai/nano"), messages=[{"role": "robot", "content": "x"}])
    with pytest.raises(litellm.NotFoundError):
        litellm.completion(**options(server, "openai/other"), messages=ADDITION)
    with pytest.raises(litellm.ContextWindowExceededError):
        litellm.completion(**options(server, "openai/nano"), messages=user("many words " * 5000))


def test_a_wrong_key_has_its_own_class():
    with serving("--api-key", "right") as server, pytest.raises(litellm.AuthenticationError):
        litellm.completion(**options(server, "openai/nano"), messages=ADDITION)
