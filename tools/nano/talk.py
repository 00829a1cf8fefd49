"""Ability (f): small talk, the facts of a little world, and saying "I do not know".

A fact is asked for in several ways; the key is the question's wording, so a measured question asks for a known fact in
words that training never saw for it. Of what it does not know it sees many examples, about things that sound alike.
"""

from task import WORDS, choose, simple, with_articles

NAME = "Nano"
CAPITALS = {
    "France": "Paris",
    "Germany": "Berlin",
    "Italy": "Rome",
    "England": "London",
    "Spain": "Madrid",
    "Austria": "Vienna",
    "Japan": "Tokyo",
    "Norway": "Oslo",
    "China": "Beijing",
    "Greece": "Athens",
    "Portugal": "Lisbon",
    "Ireland": "Dublin",
    "Russia": "Moscow",
    "Egypt": "Cairo",
    "India": "Delhi",
}
OPPOSITES = {
    "big": "small",
    "hot": "cold",
    "good": "bad",
    "new": "old",
    "long": "short",
    "happy": "sad",
    "fast": "slow",
    "light": "dark",
    "heavy": "light",
    "strong": "weak",
    "high": "low",
    "rich": "poor",
    "hard": "soft",
    "open": "closed",
    "full": "empty",
    "early": "late",
    "clean": "dirty",
    "wet": "dry",
    "loud": "quiet",
    "narrow": "wide",
}
COLORS = {
    "the sky": "blue",
    "snow": "white",
    "grass": "green",
    "the sun": "yellow",
    "blood": "red",
    "milk": "white",
    "coal": "black",
    "an orange": "orange",
    "an elephant": "gray",
    "a tomato": "red",
    "a banana": "yellow",
}
LEGS = {
    "cat": "four",
    "dog": "four",
    "bird": "two",
    "spider": "eight",
    "bee": "six",
    "fish": "no",
    "horse": "four",
    "cow": "four",
    "duck": "two",
    "sheep": "four",
    "frog": "four",
    "owl": "two",
}
ABOUT = {
    "water": "Water is made of hydrogen and oxygen. It freezes at zero degrees.",
    "the moon": "The moon goes around the earth about once a month.",
    "the earth": "The earth turns once a day and goes around the sun once a year.",
    "the sun": "The sun is a star. It gives us light and heat.",
    "ice": "Ice is lighter than water, so it floats.",
    "plants": "Plants use light, water and air to make sugar.",
    "bread": "Bread is made of flour, water and salt.",
    "a year": "A year has twelve months.",
    "a week": "A week has seven days.",
    "a day": "A day has twenty-four hours.",
    "the heart": "The heart moves the blood through the body.",
    "honey": "Honey is made by bees.",
    "gold": "Gold is a yellow metal. It is heavy and soft.",
    "music": "Music is made of sounds and of time.",
    "a river": "A river begins as a thin line of water and ends in the sea.",
}
DAYS = WORDS["day"]
MONTHS = WORDS["month"]
AFTER = dict(zip(DAYS, DAYS[1:] + DAYS[:1])) | dict(zip(MONTHS, MONTHS[1:] + MONTHS[:1]))

ASKED = {  # subject of a fact -> (ways to ask, what is answered, facts)
    "capital": (
        (
            "What is the capital of {x}?",
            "Which city is the capital of {x}?",
            "Tell me the capital of {x}.",
            "Do you know the capital of {x}?",
            "{x}: what is its capital?",
            "Name the capital of {x}.",
        ),
        "The capital of {x} is {y}.",
        CAPITALS,
    ),
    "opposite": (
        (
            "What is the opposite of {x}?",
            "Tell me the opposite of {x}.",
            "Which word is the opposite of {x}?",
            "Give me the opposite of {x}.",
            "Do you know the opposite of {x}?",
        ),
        "The opposite of {x} is {y}.",
        OPPOSITES,
    ),
    "color": (
        (
            "What color is {x}?",
            "Can you tell me the color of {x}?",
            "What is the color of {x}?",
            "Tell me the color of {x}.",
        ),
        "The color of {x} is {y}.",
        COLORS,
    ),
    "legs": (
        (
            "How many legs does a {x} have?",
            "Do you know how many legs a {x} has?",
            "Tell me how many legs a {x} has.",
            "A {x} has how many legs?",
        ),
        "A {x} has {y} legs.",
        LEGS,
    ),
    "after": (
        (
            "What comes after {x}?",
            "Which one is next after {x}?",
            "What follows {x}?",
            "Tell me what comes after {x}.",
        ),
        "After {x} comes {y}.",
        AFTER,
    ),
    "about": (
        (
            "What do you know about {x}?",
            "Tell me something about {x}.",
            "Tell me about {x}.",
            "What can you say about {x}?",
            "Say something about {x}.",
            "Could you tell me something about {x}?",
        ),
        "{y}",
        ABOUT,
    ),
}
GREETINGS = ("Hello", "Hi", "Good morning", "Good evening", "Good afternoon", "Hello there", "Hi there", "Hey")
SAYINGS = {  # what is answered: ways to say it
    "I am fine, thank you. How can I help you?": (
        "How are you?",
        "How are you today?",
        "Are you well?",
        "How do you feel?",
        "How is it going?",
        "Is all well?",
    ),
    f"I am {NAME}, a very small language model.": (
        "Who are you?",
        "What are you?",
        "What is your name?",
        "Tell me your name.",
        "Are you a person?",
        "Do you have a name?",
        "Who am I talking to?",
        "Are you a model?",
    ),
    "I can add and subtract, call tools, find facts in a text, answer in JSON, and talk a little.": (
        "What can you do?",
        "How can you help me?",
        "What are you able to do?",
        "Tell me what you can do.",
        "What do you do?",
        "Can you help me?",
        "Help",
    ),
    "You are welcome.": (
        "Thank you.",
        "Thanks!",
        "Thank you very much.",
        "Thanks a lot.",
        "Many thanks!",
        "Thank you!",
    ),
    "Goodbye! See you soon.": (
        "Goodbye.",
        "Bye!",
        "See you.",
        "See you later.",
        "Good night.",
        "I must go now.",
        "Bye bye.",
    ),
    "I am sorry. I will try to do better.": (
        "That is wrong.",
        "You are wrong.",
        "That was not right.",
        "This is a mistake.",
    ),
    "I am happy to hear that.": (
        "That is right.",
        "Very good!",
        "Well done!",
        "That was helpful.",
        "Great!",
        "I like that.",
    ),
    "Once there was a small lamp. It burned every night, and every boat came home.": (
        "Tell me a story.",
        "Tell me a short story.",
        "Do you know a story?",
        "A story, please.",
    ),
}
UNKNOWN = (
    "Who is the {job} {name}?",
    "How old is the {job} of {city}?",
    "Who wrote the {adjective} {thing}?",
    "What did {name} eat on {day}?",
    "How many {thing}s are in {city}?",
    "Why is {name} {adjective}?",
    "What is the phone number of {name}?",
    "Where is my {thing}?",
    "When was the {place} in {city} built?",
    "What will happen on {day}?",
    "How much does a {adjective} {thing} cost?",
    "Who won in {month}?",
    "What is the best {place} in {city}?",
    "Which {animal} did {name} see?",
    "What does {name} think about {topic}?",
    "Who is the mayor of {city}?",
    "What is the weather in {city}?",
    "What time is it in {city}?",
    "Where does {name} live?",
    "What is the name of my {animal}?",
)
DO_NOT_KNOW = "I do not know that."
CANNOT_CALCULATE = "I can only add and subtract."


def fact(rng):
    kind = choose(rng, ("capital", "capital", "opposite", "color", "legs", "after", "about", "about"))
    ways, told, facts = ASKED[kind]
    x = choose(rng, sorted(facts))
    question, answer = with_articles(choose(rng, ways).format(x=x)), with_articles(told.format(x=x, y=facts[x]))
    thinks = {
        "low": "I know this.",
        "high": f"The question is about {x}. I know this: {answer}",
        "max": f"The question is about {x}. I look at what I know. I know this: {answer} I can say it.",
    }
    return simple("talk", question, question, thinks, answer, kind="facts")


def saying(rng):
    answer = choose(rng, sorted(SAYINGS))
    question = choose(rng, SAYINGS[answer])
    if rng.random() < 0.3:
        question = f"{choose(rng, GREETINGS)}! {question}"
    return simple("talk", question, question, small_thinks(), answer, kind="small talk")


def small_thinks():
    return {
        "low": "Small talk.",
        "high": "This is small talk. I answer in a kind way.",
        "max": "This is small talk. No tool and no calculation is needed. I answer in a short and kind way.",
    }


def greeting(rng):
    hello = choose(rng, GREETINGS)
    if rng.random() < 0.5:
        name = choose(rng, WORDS["name"])
        form = choose(rng, ("{h}, I am {n}.", "{h}! My name is {n}.", "{h}, {n} here.", "{h}, this is {n}."))
        question, answer = form.format(h=hello, n=name), f"Hello {name}! How can I help you?"
    else:
        question, answer = (
            hello + choose(rng, (".", "!", "", f", {NAME}.", f" {NAME}!")),
            "Hello! How can I help you?",
        )
    return simple("talk", question, question, small_thinks(), answer, kind="small talk")


def unknown(rng):
    names = ("name", "job", "city", "adjective", "thing", "day", "place", "month", "animal", "topic")
    question = with_articles(choose(rng, UNKNOWN).format(**{n: choose(rng, WORDS[n]) for n in names}))
    thinks = {
        "low": "I do not know this.",
        "high": "I look at what I know. This is not there. I do not know it.",
        "max": "I look at what I know. This is not there, and no text or tool tells me. I must not guess, "
        "so I say that I do not know it.",
    }
    return simple("talk", question, question, thinks, DO_NOT_KNOW, kind="unknown")


def multiplication(rng):
    """What this model cannot calculate."""
    a, b, op = rng.randint(2, 999), rng.randint(2, 99), choose(rng, ("*", "/", "times", "divided by"))
    question = choose(rng, ("What is {} {} {}?", "How much is {} {} {}?", "{} {} {}", "Calculate {} {} {}.")).format(
        a, op, b
    )
    thinks = {
        "low": "I cannot do this.",
        "high": f"This is no sum and no difference. {CANNOT_CALCULATE}",
        "max": f"I look at the operation. This is no sum and no difference, and I have no tool. {CANNOT_CALCULATE} "
        "I say so.",
    }
    return simple("talk", question, question, thinks, CANNOT_CALCULATE, kind="unknown")


def make(rng):
    """Half facts; the rest small talk, and what is not known."""
    makers = (fact, fact, fact, fact, fact, saying, saying, greeting, unknown, choose(rng, (unknown, multiplication)))
    return choose(rng, makers)(rng)
