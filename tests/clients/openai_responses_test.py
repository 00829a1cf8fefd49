"""The official openai package against /v1/responses: items, streams of events, tools, formats, errors."""

import asyncio
import json
from typing import Literal

import openai
import pytest
from _ask import ADDITION, CALCULATE_TOOL, SUM, WEATHER_TOOL, user
from pydantic import BaseModel, Field

REQUEST = {"model": "nano", "input": "What is 17 + 25?", "temperature": 0, "reasoning": {"effort": "low"}}
TOOLS = [{"type": "function", "strict": False, **tool["function"]} for tool in (CALCULATE_TOOL, WEATHER_TOOL)]


@pytest.fixture
def client(server):
    with openai.OpenAI(base_url=server.v1, api_key="none is needed", max_retries=0, timeout=120) as client:
        yield client


def test_answers_with_thought_and_usage(client):
    response = client.responses.create(**REQUEST)
    assert (response.object, response.status, response.model) == ("response", "completed", "nano")
    assert [item.type for item in response.output] == ["reasoning", "message"]
    assert response.output_text == SUM
    usage = response.usage
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens
    assert 0 < usage.output_tokens_details.reasoning_tokens < usage.output_tokens


def test_reads_messages_as_input(client):
    response = client.responses.create(**REQUEST | {"input": ADDITION}, instructions="Be brief.")
    assert response.status == "completed" and response.output_text


def test_answers_async_clients(server):
    async def ask():
        async with openai.AsyncOpenAI(base_url=server.v1, api_key="x", max_retries=0, timeout=120) as client:
            return await asyncio.gather(*(client.responses.create(**REQUEST) for _ in range(3)))

    assert [response.output_text for response in asyncio.run(ask())] == [SUM] * 3


def test_a_stream_says_what_the_whole_answer_says(client):
    whole = client.responses.create(**REQUEST)
    events = list(client.responses.create(**REQUEST, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == events[-1].response.output_text == whole.output_text
    assert events[-1].response.usage.output_tokens == whole.usage.output_tokens
    added = [event.item.type for event in events if event.type == "response.output_item.added"]
    done = [event.item.type for event in events if event.type == "response.output_item.done"]
    assert added == done == ["reasoning", "message"]


def test_the_stream_helper_accumulates(client):
    with client.responses.stream(**REQUEST) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert events and final.output_text == SUM


@pytest.mark.parametrize("stream", [False, True])
def test_calls_a_tool_and_tells_the_result(client, stream):
    def ask(items):
        fields = {**REQUEST, "input": items, "tools": TOOLS}
        if not stream:
            return client.responses.create(**fields)
        with client.responses.stream(**fields) as events:
            return events.get_final_response()

    told = []
    for city, sky in (("Paris", "sunny"), ("Rome", "clear"), ("London", "rainy")):
        items = user(f"What is the weather in {city}?")
        response = ask(items)
        calls = [item for item in response.output if item.type == "function_call"]
        if [(call.name, json.loads(call.arguments)) for call in calls] != [("get_weather", {"city": city})]:
            continue
        output = json.dumps({"temperature": 21, "sky": sky})
        items += [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in response.output]
        items.append({"type": "function_call_output", "call_id": calls[0].call_id, "output": output})
        told.append(ask(items).output_text)
    assert any("21" in text for text in told), told


def test_must_call_the_named_tool(client):
    choice = {"type": "function", "name": "calculate"}
    response = client.responses.create(**REQUEST | {"input": "Hello."}, tools=TOOLS, tool_choice=choice)
    (call,) = [item for item in response.output if item.type == "function_call"]
    assert call.name == "calculate" and "expression" in json.loads(call.arguments)


class Person(BaseModel):
    animal: Literal["cat", "dog", "bird", "fish"]
    city: str = Field(max_length=20)


def test_parses_structured_output(client):
    response = client.responses.parse(
        model="nano",
        input="Emma lives in Rome and has a cat. Answer in JSON with animal, city.",
        text_format=Person,
        reasoning={"effort": "none"},
        max_output_tokens=300,
    )
    assert isinstance(response.output_parsed, Person)


def test_an_answer_that_is_cut_off_says_so(client):
    response = client.responses.create(**REQUEST, max_output_tokens=16)
    assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert response.usage.output_tokens == 16


BAD_REQUESTS = {
    "no input": ({"input": []}, "input"),
    "an unknown role": ({"input": [{"role": "robot", "content": "x"}]}, "input[0].role"),
    "a temperature out of range": ({"temperature": 3}, "temperature"),
    "what is not stored": ({"previous_response_id": "resp_1"}, "previous_response_id"),
}


@pytest.mark.parametrize("name", BAD_REQUESTS)
def test_a_bad_request_names_the_place(client, name):
    fields, place = BAD_REQUESTS[name]
    with pytest.raises(openai.BadRequestError) as error:
        client.responses.create(**REQUEST | fields)
    assert error.value.param.startswith(place)


def test_an_unknown_model_is_not_found(client):
    with pytest.raises(openai.NotFoundError):
        client.responses.create(**REQUEST | {"model": "gpt-9"})
