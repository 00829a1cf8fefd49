"""Ability (d): finding a fact that stands up to a thousand tokens earlier, and saying so when it is not there.

A text of facts about invented people is followed by several questions, each in its own turn. The keys are the facts,
so a measured question is about a fact no training text holds, or about a pair of what and who that no training question
looks for in vain.
"""

import re

from task import WORDS, Round, Task, choose, user, with_articles

FIRST_NAMES = WORDS["name"]
TITLES = ("doctor", "teacher", "farmer", "baker", "writer", "painter", "sailor", "driver", "singer", "nurse")
# name: (statement, question, words). Who it is about stands at most three ids before the value, as far as a convolution of
# four ids looks back: a pair of who and what can then be one key of a memory.
RELATIONS = {
    "city": ("{x} lives in {y}.", "Where does {x} live?", WORDS["city"]),
    "food": ("{x} likes {y}.", "What does {x} like?", WORDS["food"]),
    "job": ("{x} is a {y}.", "What is the job of {x}?", WORDS["job"]),
    "animal": ("{x} has a {y}.", "Which animal does {x} have?", WORDS["animal"]),
    "color": ("{x} wears a {y} hat.", "Which color is the hat of {x}?", WORDS["color"]),
    "code": ("The code of {x} is {y}.", "What is the code of {x}?", None),
    "day": ("{x} comes on {y}.", "When does {x} come?", WORDS["day"]),
    "place": ("The {x} is in {y}.", "Where is the {x}?", WORDS["city"]),
}
FILLER = (
    "The {a} {b} is near the {c}.",
    "A {b} can be {a}.",
    "In {m} the {c} is {a}.",
    "Nobody saw the {a} {b}.",
    "The {c} was {a} and {d}.",
    "Every {t} the {c} is {d}.",
    "It was a {a} {t} in {m}.",
)
INTRODUCTIONS = ("Read this text. {}", "Here is a text: {}", "{}", "Remember this: {}", "Notes: {}")
MOST_FACTS = 12
MOST_SENTENCES = 135  # about eight ids each
MISSING = 0.25  # of the questions have no answer in the text
MISSED = "The text does not say that."
ACKNOWLEDGED = "I have read it. What do you want to know?"


def subjects(rng, relation, count):
    if relation == "place":
        return rng.sample(WORDS["thing"], count)
    return rng.sample(FIRST_NAMES, count)


def value_for(rng, relation):
    words = RELATIONS[relation][2]
    return choose(rng, words) if words else str(rng.randint(1000, 9999))


def stated(relation, subject, value):
    return with_articles(RELATIONS[relation][0].format(x=subject, y=value))


def answered(statement):
    """Not the bare statement: a first word without a space before it is spelled in other ids than in the text."""
    return "The text says that " + re.sub("^The ", "the ", statement)


def filler(rng):
    kinds = {"a": "adjective", "b": "thing", "c": "place", "d": "adjective", "m": "month", "t": "time"}
    words = {letter: choose(rng, WORDS[kind]) for letter, kind in kinds.items()}
    return with_articles(choose(rng, FILLER).format(**words))


def alike_facts(rng, count):
    """Facts of few relations about few people, so that neither who nor what alone says which one is meant, and pairs of both
    that the text could have and has not.
    """
    relations = rng.sample(sorted(RELATIONS), rng.choice((1, 2, 3, 4, len(RELATIONS))))
    least = -(-count // len(relations))
    names = rng.sample(FIRST_NAMES, least + rng.choice((0, 1, 3, 8)))
    things = rng.sample(WORDS["thing"], least + rng.choice((0, 1, 3, 8)))
    pairs = [(r, s) for r in relations for s in (things if r == "place" else names)]
    rng.shuffle(pairs)
    return {pair: value_for(rng, pair[0]) for pair in pairs[:count]}, pairs[count:]


def different_facts(rng, count):
    """One fact of each relation at most, and questions about the relations that the text does not mention."""
    relations = rng.sample(sorted(RELATIONS), len(RELATIONS))
    pairs = [(relation, subjects(rng, relation, 1)[0]) for relation in relations]
    return {pair: value_for(rng, pair[0]) for pair in pairs[:count]}, pairs[count:]


def text_of(rng, facts, sentences):
    lines = [stated(r, x, y) for (r, x), y in facts.items()]
    lines += [filler(rng) for _ in range(sentences - len(lines))]
    rng.shuffle(lines)
    return " ".join(lines)


def answer_round(relation, subject, value, incoming):
    statement = stated(relation, subject, value)
    thinks = {
        "low": f"The text says: {statement}",
        "high": f"The question is about the {relation} of {subject}. The text says: {statement}",
        "max": f"The question is about the {relation} of {subject}. I look for {subject} and {relation} in the text. "
        f"It says: {statement} So the answer is {value}.",
    }
    return Round(incoming, thinks, answered(statement))


def missing_round(relation, subject, incoming):
    """Begins the statement, as other answers do: there the memory of the text is asked, and gives nothing. So a reply
    without thinking has to begin it too.
    """
    begun = with_articles(RELATIONS[relation][0].split("{y}")[0].format(x=subject)) + "?"
    thinks = {
        "low": f"The text says: {begun} It does not say it.",
        "high": f"The question is about the {relation} of {subject}. The text says: {begun} It does not say it.",
        "max": f"The question is about the {relation} of {subject}. I look for {subject} and {relation} in the text. "
        f"It says: {begun} So it does not say it.",
    }
    return Round(incoming, thinks, MISSED, aloud=f"{answered(begun)} It does not say it.")


def question_rounds(rng, facts, near, count, missing):
    """Rounds and the keys of what they ask for."""
    rounds, keys = [], []
    for relation, subject in rng.sample(sorted(facts), count):
        if rng.random() < missing:
            relation, subject = choose(rng, near) if near else absent(rng, facts)
        question = user(RELATIONS[relation][1].format(x=subject))
        value = facts.get((relation, subject))
        if value is None:
            rounds.append(missing_round(relation, subject, [question]))
            keys.append(f"missing {relation} {subject}")
        else:
            rounds.append(answer_round(relation, subject, value, [question]))
            keys.append(fact_key(relation, subject, value))
    return rounds, keys


def fact_key(relation, subject, value):
    return f"fact {relation} {subject} {value}"


def absent(rng, facts):
    while True:
        relation = choose(rng, sorted(RELATIONS))
        subject = subjects(rng, relation, 1)[0]
        if (relation, subject) not in facts:
            return relation, subject


def make(rng, most_sentences=MOST_SENTENCES, questions=None, least_sentences=3, alike=None, missing=MISSING):
    """`alike`: whether the text may have several facts of one relation; None: mostly; the others are easier.
    `missing`: share of the questions that have no answer.
    """
    alike = rng.random() < 0.7 if alike is None else alike
    sentences = rng.randint(least_sentences, most_sentences)
    most = min(MOST_FACTS if alike else len(RELATIONS) - 1, sentences)
    facts, near = (alike_facts if alike else different_facts)(rng, rng.randint(2, most))
    rounds, keys = question_rounds(rng, facts, near, questions or min(len(facts), rng.randint(3, 9)), missing)
    text = choose(rng, INTRODUCTIONS).format(text_of(rng, facts, sentences))
    if rng.random() < 0.5:
        think = {
            "low": "A text to remember.",
            "high": "The user gives me a text. Questions will follow.",
            "max": "The user gives me a text and no question yet. I say that I have read it.",
        }
        rounds.insert(0, Round([user(text)], think, ACKNOWLEDGED))
    else:
        rounds[0].incoming[0] = user(f"{text} {rounds[0].incoming[0]['content']}")
    stated_keys = [fact_key(relation, subject, value) for (relation, subject), value in facts.items()]
    return Task("lookup", keys, rounds, kind="lookup", beside=stated_keys)
