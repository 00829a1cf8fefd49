"""Ability (c): calling the declared tools, one or two at once, and telling what they returned.

Tools are put together from a verb, a noun and parameters, so a prompt can declare some that training never saw: the key
is the pair of verb and noun. A few names that programs really use (get_weather, calculate, ...) are common in training;
for them the key is what they are asked for.
"""

import json

from task import WORDS, Round, Task, choose, user

VERBS = {
    "get": "Get",
    "find": "Find",
    "check": "Check",
    "read": "Read",
    "show": "Show",
    "list": "List",
    "count": "Count",
    "open": "Open",
    "close": "Close",
    "book": "Book",
    "order": "Order",
    "send": "Send",
    "start": "Start",
    "stop": "Stop",
}
NOUNS = (
    "weather",
    "price",
    "time",
    "ticket",
    "train",
    "room",
    "letter",
    "song",
    "story",
    "map",
    "table",
    "report",
    "list",
    "event",
    "message",
    "file",
    "picture",
    "book",
    "bus",
    "garden",
    "light",
    "door",
    "window",
    "lesson",
    "team",
    "plan",
    "record",
    "test",
    "road",
    "hotel",
    "museum",
    "market",
    "soup",
    "bread",
    "coffee",
    "flight",
    "garage",
    "task",
    "note",
)
CONNECTIVES = {  # parameter -> (phrase, words it takes)
    "city": ("in {}", WORDS["city"]),
    "country": ("in {}", WORDS["country"]),
    "day": ("on {}", WORDS["day"]),
    "month": ("in {}", WORDS["month"]),
    "name": ("for {}", WORDS["name"]),
    "color": ("in {}", WORDS["color"]),
    "place": ("at the {}", WORDS["place"]),
    "food": ("with {}", WORDS["food"]),
    "topic": ("about {}", WORDS["topic"]),
    "limit": ("up to {}", None),
    "hour": ("at {} o'clock", None),
}
RESULTS = {
    "temperature": None,
    "price": None,
    "count": None,
    "status": ("open", "closed", "ready", "full", "empty", "late"),
    "sky": tuple(WORDS["weather"]),
    "color": tuple(WORDS["color"]),
    "owner": tuple(WORDS["name"]),
}
FIRST = ("{}.", "Please {}.", "{}, please.", "Can you {}?", "Could you {}?", "I want you to {}.")


def schema_of(keys):
    integer = ("limit", "hour")
    properties = {key: {"type": "integer" if key in integer else "string"} for key in keys}
    return {"type": "object", "properties": properties, "required": sorted(keys)}


def declare(name, description, parameters):
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def lower_first(text):
    return text[:1].lower() + text[1:]


class Call:
    """One thing to be done: a tool, how a user asks for it, its arguments, what it returns.

    `question` is another way to ask: a start that two calls can share, and what differs.
    """

    def __init__(self, tool, request, arguments, result, key, about, question=None):
        self.tool, self.request, self.arguments, self.result = tool, request, arguments, result
        self.key, self.about, self.question = key, about, question

    @property
    def name(self):
        return self.tool["function"]["name"]

    @property
    def short(self):
        values = ", ".join(f"{k} {v}" for k, v in self.arguments.items())
        return f"{self.name} with {values}" if values else self.name


def value_for(rng, key):
    words = CONNECTIVES[key][1]
    return choose(rng, words) if words else rng.randint(1, 30 if key == "limit" else 12)


def made_result(rng):
    keys = rng.sample(sorted(RESULTS), rng.randint(1, 2))
    return {k: choose(rng, RESULTS[k]) if RESULTS[k] else rng.randint(1, 99) for k in keys}


def made_call(rng, verb=None, noun=None, keys=None):
    verb, noun = verb or choose(rng, sorted(VERBS)), noun or choose(rng, NOUNS)
    keys = keys if keys is not None else rng.sample(sorted(CONNECTIVES), rng.randint(1, 3))
    arguments = {key: value_for(rng, key) for key in keys}
    phrase = " ".join(CONNECTIVES[key][0].format(value) for key, value in arguments.items())
    tool = declare(f"{verb}_{noun}", f"{VERBS[verb]} the {noun}.", schema_of(keys))
    request, about = f"{VERBS[verb]} the {noun} {phrase}", f"{noun} {phrase}"
    return Call(tool, request, arguments, made_result(rng), f"tool {verb}_{noun}", f"The {about}")


def weather(rng):
    city, units = choose(rng, WORDS["city"]), choose(rng, ("celsius", "fahrenheit"))
    parameters = {
        "type": "object",
        "required": ["city"],
        "properties": {"city": {"type": "string"}, "units": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
    }
    arguments, request = {"city": city}, f"Tell me the weather in {city}"
    if rng.random() < 0.4:
        arguments["units"] = units
        request += f" in {units}"
    result = {"temperature": rng.randint(-9, 35), "sky": choose(rng, WORDS["weather"])}
    tool = declare("get_weather", "Current weather for a city.", parameters)
    start = choose(rng, ("What is the weather", "How is the weather", "What is the weather like"))
    question = (start, request.removeprefix("Tell me the weather "))
    return Call(tool, request, arguments, result, f"weather {city} {units}", f"The weather in {city}", question)


def calculate(rng):
    a, b, op = rng.randint(2, 99), rng.randint(2, 99), choose(rng, "+-*")
    expression = f"{a} {op} {b}"
    parameters = {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]}
    value = {"+": a + b, "-": a - b, "*": a * b}[op]
    tool = declare("calculate", "Evaluate an arithmetic expression.", parameters)
    return Call(
        tool,
        f"Calculate {expression}",
        {"expression": expression},
        {"result": value},
        f"calculate {expression}",
        expression,
        ("What is", expression),
    )


def search(rng):
    query = f"{choose(rng, WORDS['adjective'])} {choose(rng, WORDS['food'] + WORDS['place'] + WORDS['thing'])}"
    parameters = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    tool = declare("search", "Search the web and return the best results.", parameters)
    return Call(
        tool,
        f'Search for "{query}"',
        {"query": query},
        {"count": rng.randint(1, 99)},
        f"search {query}",
        f'The search for "{query}"',
    )


def message(rng):
    name, text = choose(rng, WORDS["name"]), f"see you on {choose(rng, WORDS['day'])}"
    parameters = {
        "type": "object",
        "required": ["to", "body"],
        "properties": {"to": {"type": "string"}, "body": {"type": "string"}},
    }
    tool = declare("send_message", "Send a message to a person.", parameters)
    return Call(
        tool,
        f'Send {name} the message "{text}"',
        {"to": name, "body": text},
        {"status": "sent"},
        f"message {name} {text}",
        f"The message to {name}",
    )


KNOWN = (weather, calculate, search, message)


def some_call(rng):
    return choose(rng, KNOWN)(rng) if rng.random() < 0.4 else made_call(rng)


def told(call):
    """How a result is told: "The weather in Rome: temperature 21, sky sunny." """
    return f"{call.about}: " + ", ".join(f"{k} {v}" for k, v in call.result.items()) + "."


def thinks_before(calls, tools):
    plan = " and ".join(c.short for c in calls)
    wish = " and ".join(lower_first(c.request) for c in calls)
    names = ", ".join(t["function"]["name"] for t in tools)
    high = f"The user wants me to {wish}. I call {plan}."
    return {"low": f"I call {plan}.", "high": high, "max": f"The tools are {names}. {high} Nothing is missing."}


def thinks_after(calls):
    facts = " ".join(told(c) for c in calls)
    low = "I have the results." if len(calls) > 1 else "I have the result."
    return {"low": low, "high": f"{low} I tell what it says.", "max": f"{low} {facts} I tell this."}


def asked_for(rng, calls):
    """What the user says."""
    if all(c.question and c.name == calls[0].name for c in calls) and rng.random() < 0.6:
        return f"{calls[0].question[0]} {' and '.join(c.question[1] for c in calls)}?"
    asked = choose(rng, FIRST)
    wish = " and ".join([calls[0].request, *(lower_first(c.request) for c in calls[1:])])
    return asked.format(wish if asked.startswith("{}") else lower_first(wish))


def calling_task(rng, calls, extra, kind, tool_choice=None):
    tools = {c.name: c.tool for c in [*extra, *calls]}
    order = sorted(tools)
    rng.shuffle(order)
    tools = [tools[name] for name in order]
    question = asked_for(rng, calls)
    first = Round([user(question)], thinks_before(calls, tools), "", [(c.name, c.arguments) for c in calls])
    results = [
        {"role": "tool", "tool_call_id": f"call_{i}", "content": json.dumps(c.result)} for i, c in enumerate(calls)
    ]
    second = Round(results, thinks_after(calls), " ".join(told(c) for c in calls))
    rounds = [first] if tool_choice else [first, second]  # a choice speaks of the next message only
    return Task("tools", [c.key for c in calls], rounds, tools, tool_choice, kind=kind, beside=[c.key for c in extra])


def distinct(rng, count):
    """Calls of different tools."""
    calls = {}
    while len(calls) < count:
        call = some_call(rng)
        calls.setdefault(call.name, call)
    return list(calls.values())


def twice(rng):
    """The same tool for two things."""
    while True:
        first = some_call(rng)
        known = next((make for make in KNOWN if make(rng).name == first.name), None)
        if known:
            second = known(rng)
        else:
            verb, noun = first.name.split("_", 1)
            second = made_call(rng, verb, noun, list(first.arguments))
        if second.arguments != first.arguments and list(second.arguments) == list(first.arguments):
            return [first, second]


def declined(rng):
    """tool_choice none: the tools are there and must not be called."""
    (call,) = distinct(rng, 1)
    thinks = {
        "low": "No tools now.",
        "high": "I must not call tools now.",
        "max": "The user wants a tool, but I must not call tools in this message. I say so.",
    }
    response = "I am not allowed to use tools for this answer."
    r = Round([user(call.request + ".")], thinks, response)
    return Task("tools", [call.key], [r], [call.tool], "none", kind="none")


def make(rng):
    roll = rng.random()
    if roll < 0.04:
        return declined(rng)
    if roll < 0.34:
        calls = distinct(rng, 2)
        return calling_task(rng, calls, distinct(rng, 1)[: rng.randint(0, 1)], "two")
    if roll < 0.68:
        return calling_task(rng, twice(rng), [], "two")
    calls = distinct(rng, rng.randint(1, 3))
    choice = "required" if rng.random() < 0.06 else None
    return calling_task(rng, calls[:1], calls[1:], "one", choice)
