"""Saying what one is asked to say. Little use by itself, but the shortest way to learn to copy any word of a prompt,
which finding facts, calling tools and JSON all rest on; so training begins with much of it.
"""

from task import WORDS, choose, simple

QUESTIONS = ("Say: {}", "Repeat: {}", "Please repeat: {}", "Say this: {}", "I want to hear: {}")
MOST_WORDS = 8
ALL_WORDS = sorted({word for words in WORDS.values() for word in words})
# A reply begins without a space, and most words are then spelled in other pieces than behind one. JSON and arguments need
# this of the words that stand for values.
VALUES = ("name", "city", "country", "animal", "food", "drink", "color", "place", "job", "day", "month", "topic", "thing")
FIRST_WORDS = sorted({word for category in VALUES for word in WORDS[category]})


def piece(rng):
    return choose(rng, ALL_WORDS) if rng.random() < 0.85 else str(rng.randint(0, 9999))


def make(rng):
    text = " ".join([choose(rng, FIRST_WORDS), *(piece(rng) for _ in range(rng.randint(0, MOST_WORDS - 1)))])
    thinks = {
        "low": "I repeat it.",
        "high": f"I am asked to say this: {text}",
        "max": f"I am asked to say this: {text} I say it word for word: {text}",
    }
    return simple("repeat", f"repeat {text}", choose(rng, QUESTIONS).format(text), thinks, text, kind="repeat")
