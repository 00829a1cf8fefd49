"""Agents: a client gives nano tools, runs what it calls, hands back the results, and is told the answer.

nano was trained to do this (tools/nano/calling.py) and does it nearly always; so of a few tasks most must be done.
Replies are greedy, the same on every machine.
"""

import ast
import json
import operator

import openai
import pytest
from _ask import CALCULATE_TOOL, WEATHER_TOOL, user

TOOLS = [CALCULATE_TOOL, WEATHER_TOOL]
SKIES = {"Paris": (21, "sunny"), "Rome": (28, "clear"), "London": (12, "rainy"), "Berlin": (15, "cloudy")}
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}
MOST_ROUNDS = 4


def calculate(expression):
    def value(node):
        if isinstance(node, ast.BinOp):
            return OPERATORS[type(node.op)](value(node.left), value(node.right))
        return ast.literal_eval(node)

    return {"result": value(ast.parse(expression, mode="eval").body)}


def get_weather(city, units="celsius"):
    temperature, sky = SKIES[city]
    return {"temperature": temperature if units == "celsius" else temperature * 9 // 5 + 32, "sky": sky}


FUNCTIONS = {"calculate": calculate, "get_weather": get_weather}
TASKS = [  # question, what must be called, what the answer must hold
    ("What is the weather in Paris?", ("get_weather", {"city": "Paris"}), ["21", "sunny"]),
    ("Tell me the weather in Rome.", ("get_weather", {"city": "Rome"}), ["28", "clear"]),
    ("Please tell me the weather in London.", ("get_weather", {"city": "London"}), ["12", "rainy"]),
    ("Calculate 12 + 30.", ("calculate", {"expression": "12 + 30"}), ["42"]),
    ("Please calculate 50 - 8.", ("calculate", {"expression": "50 - 8"}), ["42"]),
    ("Can you calculate 6 * 7?", ("calculate", {"expression": "6 * 7"}), ["42"]),
]


def whole_message(client, messages):
    answer = client.chat.completions.create(
        model="nano", messages=messages, tools=TOOLS, temperature=0, reasoning_effort="low"
    )
    return answer.choices[0].message


def streamed_message(client, messages):
    with client.chat.completions.stream(
        model="nano", messages=messages, tools=TOOLS, temperature=0, reasoning_effort="low"
    ) as stream:
        return stream.get_final_completion().choices[0].message


def run_agent(client, question, next_message):
    """Every call that was made, and the last message."""
    messages, calls = user(question), []
    for _ in range(MOST_ROUNDS):
        message = next_message(client, messages)
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return calls, message.content
        for call in message.tool_calls:
            name, arguments = call.function.name, json.loads(call.function.arguments)
            calls.append((name, arguments))
            try:
                result = FUNCTIONS[name](**arguments)
            except (KeyError, TypeError, ValueError, SyntaxError) as error:
                result = {"error": str(error)}
            messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)})
    return calls, ""


@pytest.mark.parametrize("next_message", [whole_message, streamed_message])
def test_an_agent_does_its_tasks(server, next_message):
    with openai.OpenAI(base_url=server.v1, api_key="none", max_retries=0, timeout=120) as client:
        outcomes = [(task, run_agent(client, task[0], next_message)) for task in TASKS]
    done = [
        task
        for task, (calls, answer) in outcomes
        if calls == [task[1]] and all(word in (answer or "") for word in task[2])
    ]
    assert len(done) >= len(TASKS) - 2, outcomes
    assert {task[1][0] for task in done} == set(FUNCTIONS)
