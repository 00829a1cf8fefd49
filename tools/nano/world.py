"""Conversations of the nano world: tasks of all abilities, mixed, as ids with marks on what is to be learnt.

The same seed always gives the same conversations. A curriculum shortens texts and numbers at the beginning.
"""

from dataclasses import dataclass, field

import arithmetic
import calling
import chat
import lookup
import repeating
import structured
import talk
from task import choose, draw, seeded

MAKERS = {
    "arithmetic": arithmetic.make,
    "tools": calling.make,
    "lookup": lookup.make,
    "json": structured.make,
    "talk": talk.make,
    "repeat": repeating.make,
}
# Conversations; in ids the shares differ, since a conversation of lookups is long.
FIRST_SHARES = {"arithmetic": 0.20, "tools": 0.15, "lookup": 0.20, "json": 0.10, "talk": 0.10, "repeat": 0.25}
SHARES = {"arithmetic": 0.33, "tools": 0.25, "lookup": 0.18, "json": 0.09, "talk": 0.11, "repeat": 0.04}
# What most of training is left for: the abilities that take longest.
LAST_SHARES = {"arithmetic": 0.14, "tools": 0.35, "lookup": 0.32, "json": 0.07, "talk": 0.10, "repeat": 0.02}
# While the rate falls to its end: what then still gains most, sums and facts that are missing or alike.
FINAL_SHARES = {"arithmetic": 0.40, "tools": 0.20, "lookup": 0.26, "json": 0.05, "talk": 0.08, "repeat": 0.01}
SHORT_TEXT = 12  # sentences of the texts of lookups
LEVELS = ("low", "high", "max", None)  # None: thinking off
LEVEL_SHARES = (0.45, 0.18, 0.17, 0.20)
NO_EFFORT_MESSAGE = 0.05  # of the thinking ones
SYSTEM_TEXTS = (
    "You are a helpful assistant.",
    f"You are {talk.NAME}.",
    "You are a friendly assistant. Answer in short sentences.",
    f"You are {talk.NAME}, a helpful assistant.",
    "Be kind and short.",
)


@dataclass
class Stage:
    """How hard training is now."""

    most_digits: int = 3
    most_sentences: int = lookup.MOST_SENTENCES
    shares: dict = field(default_factory=lambda: SHARES)


def stage_at(progress):
    """progress 0..1 of the training."""
    if progress < 0.05:
        return Stage(2, SHORT_TEXT, FIRST_SHARES)
    if progress < 0.4:
        return Stage(3, SHORT_TEXT if progress < 0.15 else 40)
    if progress < 0.7:
        return Stage(3, 80 if progress < 0.6 else lookup.MOST_SENTENCES, LAST_SHARES)
    return Stage(3, lookup.MOST_SENTENCES, FINAL_SHARES)


def maker_of(ability, stage):
    if ability == "arithmetic":
        return lambda rng: arithmetic.make(rng, stage.most_digits)
    if ability == "lookup":
        # Half of the texts are short: a question about one teaches as much, and costs little.
        return lambda rng: lookup.make(rng, choose(rng, (SHORT_TEXT, stage.most_sentences)))
    return MAKERS[ability]


def some_task(rng, ability, stage):
    return draw(maker_of(ability, stage), rng, measuring=False)


def beside_tools(rng, task, stage):
    """A plain task that none of the task's tools could answer."""
    names = {tool["function"]["name"] for tool in task.tools}
    if "calculate" not in names and rng.random() < 0.5:
        return some_task(rng, "arithmetic", stage)
    while (plain := some_task(rng, "talk", stage)).kind == "unknown":
        pass
    return plain


def tasks_of(rng, stage):
    """Tasks of one conversation: one that needs tools or a format, or several plain ones."""
    ability = rng.choices(list(stage.shares), stage.shares.values())[0]
    task = some_task(rng, ability, stage)
    if ability == "lookup" or task.response_format or task.tool_choice:
        return [task]
    if task.tools:
        plain = [beside_tools(rng, task, stage) for _ in range(rng.random() < 0.25)]
        return [task, *plain] if rng.random() < 0.5 else [*plain, task]
    count = rng.choices((1, 2, 3, 4, 5), (2, 2, 3, 2, 1))[0]
    mixed = ("talk", "arithmetic", "repeat")
    more = [
        some_task(rng, ability if rng.random() < 0.7 or ability not in mixed else choose(rng, mixed), stage)
        for _ in range(count - 1)
    ]
    return [task, *(t for t in more if t.plain)]


def conversation_of(rng, tasks, level):
    """`level` as in LEVELS."""
    messages = [m for task in tasks for m in task.messages(level)]
    if rng.random() < 0.25:
        messages.insert(0, {"role": "system", "content": choose(rng, SYSTEM_TEXTS)})
    silent = level == "low" and rng.random() < NO_EFFORT_MESSAGE
    tools = next((t.tools for t in tasks if t.tools), [])
    first = tasks[0]
    return chat.Conversation(
        messages, level is not None, None if silent else level, tools, first.tool_choice, first.response_format
    )


def training_conversation(seed, index, progress):
    """(ability of its first task, Conversation)."""
    rng = seeded("train", seed, index)
    tasks = tasks_of(rng, stage_at(progress))
    level = rng.choices(LEVELS, LEVEL_SHARES)[0]
    return tasks[0].ability, conversation_of(rng, tasks, level)


def measured_task(ability, index, **options):
    """A task on the measuring side, the same for every call."""
    make = MAKERS[ability]
    return draw(lambda rng: make(rng, **options), seeded("measure", ability, index), measuring=True)
