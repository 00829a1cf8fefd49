"""Ability (e): answers in JSON, when the request's response format or the user asks for it.

The keys of an answer are those of the schema, in its order; without a schema they are named by the user. The key of the
split is the set of facts.
"""

import json

from task import WORDS, Round, Task, choose, user, with_articles

FIELDS = {  # name: (how a text tells it, words)
    "name": ("{}", WORDS["name"]),
    "age": ("is {} years old", None),
    "city": ("lives in {}", WORDS["city"]),
    "job": ("works as a {}", WORDS["job"]),
    "food": ("likes {}", WORDS["food"]),
    "animal": ("has a {}", WORDS["animal"]),
    "drink": ("drinks {}", WORDS["drink"]),
    "day": ("comes on {}", WORDS["day"]),
}
QUESTIONS = (
    "{text} Give me {keys} as JSON.",
    "{text} Answer in JSON with {keys}.",
    "JSON with {keys}, please: {text}",
)
OPEN_QUESTIONS = ("{text}", "Read this: {text}", "{text} What do we know?")


def person(rng):
    others = rng.sample([f for f in FIELDS if f != "name"], rng.randint(2, 4))
    values = {"name": choose(rng, WORDS["name"])}
    for key in others:
        words = FIELDS[key][1]
        values[key] = choose(rng, words) if words else rng.randint(5, 90)
    return values


def text_of(values):
    parts = [FIELDS[key][0].format(value) for key, value in values.items() if key != "name"]
    return with_articles(f"{values['name']} " + ", ".join(parts[:-1]) + f" and {parts[-1]}.")


def wanted(rng, values):
    keys = rng.sample(sorted(values), rng.randint(2, len(values)))
    return sorted(keys)


def schema_of(keys):
    properties = {key: {"type": "integer" if key == "age" else "string"} for key in keys}
    return {"type": "object", "properties": properties, "required": keys}


def thinks(answer):
    keys = ", ".join(answer)
    facts = ", ".join(f"{k} is {v}" for k, v in answer.items())
    return {
        "low": f"JSON with {keys}.",
        "high": f"The answer must be JSON with {keys}. {facts}.",
        "max": f"The answer must be JSON and nothing else. The keys are {keys}. From the text: {facts}.",
    }


def make(rng):
    values = person(rng)
    keys = wanted(rng, values)
    answer, text = {key: values[key] for key in keys}, text_of(values)
    roll, form = rng.random(), None
    listed = ", ".join(keys)
    question = choose(rng, QUESTIONS).format(text=text, keys=listed)
    if roll < 0.4:
        form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema_of(keys)}}
        question = choose(rng, OPEN_QUESTIONS).format(text=text)
    elif roll < 0.7:
        form = {"type": "json_object"}
    kind = form["type"] if form else "asked"
    compact = json.dumps(answer, separators=(",", ":"))  # as a reply that a grammar holds to JSON is written
    r = Round([user(question)], thinks(answer), compact)
    return Task("json", ["person " + json.dumps(values)], [r], response_format=form, kind=kind)
