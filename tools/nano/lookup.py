"""Ability (d): finding a fact that stands up to a thousand tokens earlier, and saying so when it is not there.

A text of facts about invented people is followed by several questions, each in its own turn. The keys are the facts
asked for, so a measured question is about a fact no training text holds.
"""

from task import WORDS, Round, Task, choose, user, with_articles

FIRST_NAMES = WORDS["name"]
TITLES = ("doctor", "teacher", "farmer", "baker", "writer", "painter", "sailor", "driver", "singer", "nurse")
RELATIONS = {  # name: (statement, question, how the answer is told, words)
    "city": ("{x} lives in {y}.", "Where does {x} live?", WORDS["city"]),
    "food": ("{x} likes {y}.", "What does {x} like?", WORDS["food"]),
    "job": ("{x} works as a {y}.", "What is the job of {x}?", WORDS["job"]),
    "animal": ("{x} has a {y}.", "Which animal does {x} have?", WORDS["animal"]),
    "color": ("{x} wears a {y} hat.", "Which color is the hat of {x}?", WORDS["color"]),
    "code": ("The code of {x} is {y}.", "What is the code of {x}?", None),
    "day": ("{x} comes on {y}.", "When does {x} come?", WORDS["day"]),
    "place": ("The {x} is in the {y}.", "Where is the {x}?", WORDS["place"]),
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


def filler(rng):
    kinds = {"a": "adjective", "b": "thing", "c": "place", "d": "adjective", "m": "month", "t": "time"}
    words = {letter: choose(rng, WORDS[kind]) for letter, kind in kinds.items()}
    return with_articles(choose(rng, FILLER).format(**words))


def facts_for(rng, count):
    """{(relation, subject): value}; some subjects never get a fact of some relations."""
    facts = {}
    while len(facts) < count:
        relation = choose(rng, sorted(RELATIONS))
        subject = subjects(rng, relation, 1)[0]
        facts.setdefault((relation, subject), value_for(rng, relation))
    return facts


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
    return Round(incoming, thinks, statement)


def missing_round(relation, subject, incoming):
    thinks = {
        "low": "The text does not say it.",
        "high": f"The question is about the {relation} of {subject}. The text does not say it.",
        "max": f"The question is about the {relation} of {subject}. I look for {subject} and {relation} in the text. "
        "It does not say it.",
    }
    return Round(incoming, thinks, "The text does not say that.")


def question_rounds(rng, facts, count):
    """Rounds and the keys of the facts they ask for; one question in eight has no answer."""
    rounds, keys = [], []
    for relation, subject in rng.sample(sorted(facts), count):
        question = user(RELATIONS[relation][1].format(x=subject))
        if rng.random() < 0.125:
            relation, subject = absent(rng, facts)
            rounds.append(missing_round(relation, subject, [user(RELATIONS[relation][1].format(x=subject))]))
            continue
        value = facts[relation, subject]
        rounds.append(answer_round(relation, subject, value, [question]))
        keys.append(f"fact {relation} {subject} {value}")
    return rounds, keys


def absent(rng, facts):
    while True:
        relation = choose(rng, sorted(RELATIONS))
        subject = subjects(rng, relation, 1)[0]
        if (relation, subject) not in facts:
            return relation, subject


def make(rng, most_sentences=135, questions=None, least_sentences=3):
    """About eight ids a sentence."""
    sentences = rng.randint(least_sentences, most_sentences)
    facts = facts_for(rng, min(MOST_FACTS, max(2, sentences * 2 // 5)))
    rounds, keys = question_rounds(rng, facts, questions or min(len(facts), rng.randint(3, 9)))
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
    return Task("lookup", keys or ["fact none"], rounds, kind="lookup")
