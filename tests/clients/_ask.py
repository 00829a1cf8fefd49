"""Questions that nano was trained on (tools/nano), and requests whose answers are long whatever it knows."""

SUM = "17 + 25 = 42"


def user(text):
    return [{"role": "user", "content": text}]


ADDITION = user("What is 17 + 25?")
PERSON = user("Emma lives in Rome and has a cat. Answer in JSON with animal, city.")

WEATHER_TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather for a city.",
        "parameters": {
            "type": "object",
            "required": ["city"],
            "properties": {
                "city": {"type": "string"},
                "units": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            },
        },
    },
}

CALCULATE_TOOL = {
    "type": "function",
    "function": {
        "name": "calculate",
        "description": "Evaluate an arithmetic expression.",
        "parameters": {
            "type": "object",
            "properties": {"expression": {"type": "string"}},
            "required": ["expression"],
        },
    },
}


def long_reply(items=900):
    """Fields of a chat request: the form has at least that many numbers, so the reply ends only by being cancelled."""
    numbers = {"type": "array", "items": {"type": "integer"}, "minItems": items}
    return {
        "messages": user("Count."),
        "reasoning_effort": "none",
        "response_format": {"type": "json_schema", "json_schema": {"name": "numbers", "schema": numbers}},
        "max_tokens": 3000,
        "seed": 1,
    }
