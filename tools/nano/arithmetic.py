"""Ability (b): adding and subtracting up to three digits, with thinking that goes digit by digit, units first.

Each step of the thinking needs two digits of the question and whether the step before carried, so a small model can
learn it; the answer is read off the last digits of the steps. How far it is spelled out depends on the effort.
"""

from task import WORDS, choose, simple

PLACES = ("Units", "Tens", "Hundreds", "Thousands")
QUESTIONS = {
    "+": (
        "What is {a} + {b}?",
        "{a} + {b}",
        "{a}+{b}?",
        "{a} + {b} = ?",
        "What is {a} plus {b}?",
        "How much is {a} + {b}?",
        "Calculate {a} + {b}.",
        "Please add {a} and {b}.",
        "Add {b} to {a}.",
        "What is the sum of {a} and {b}?",
        "Tell me {a} plus {b}.",
        "Can you add {a} and {b}?",
    ),
    "-": (
        "What is {a} - {b}?",
        "{a} - {b}",
        "{a}-{b}?",
        "{a} - {b} = ?",
        "What is {a} minus {b}?",
        "How much is {a} - {b}?",
        "Calculate {a} - {b}.",
        "Please subtract {b} from {a}.",
        "Subtract {b} from {a}.",
        "Take {b} away from {a}.",
        "Tell me {a} minus {b}.",
        "Can you subtract {b} from {a}?",
    ),
}
STORIES = {
    "+": (
        "{name} has {a} {things} and gets {b} more. How many {things} does {name} have now?",
        "There are {a} {things} on the table and {b} in the box. How many {things} are there?",
    ),
    "-": (
        "{name} has {a} {things} and gives {b} away. How many {things} are left?",
        "There are {a} {things} in the shop. {name} buys {b}. How many {things} are left?",
    ),
}
STORY_ANSWERS = {
    "+": ("{name} has {c} {things}.", "There are {c} {things}."),
    "-": ("{c} {things} are left.", "{c} {things} are left."),
}


def digits(n, count):
    """Units first, zeros where a number ends."""
    return [n // 10**i % 10 for i in range(count)]


def addition_steps(a, b):
    """[(expression, value)]: "4+8+1", 13."""
    count, carry, steps = max(len(str(a)), len(str(b))), 0, []
    for x, y in zip(digits(a, count), digits(b, count)):
        value = x + y + carry
        steps.append((f"{x}+{y}" + "+1" * carry, value))
        carry = value // 10
    return steps


def subtraction_steps(a, b):
    """a >= b. A borrow writes the upper digit with ten more and takes one away in the next step."""
    count, borrow, steps = len(str(a)), 0, []
    for x, y in zip(digits(a, count), digits(b, count)):
        borrows = x - y - borrow < 0
        value = x + 10 * borrows - y - borrow
        steps.append((f"{x + 10 * borrows}-{y}" + "-1" * borrow, value))
        borrow = int(borrows)
    return steps


def steps_of(a, op, b):
    return addition_steps(a, b) if op == "+" else subtraction_steps(a, b)


def aligned(a, op, b):
    """Both numbers with as many digits: "347+085"."""
    count = max(len(str(a)), len(str(b)))
    return f"{a:0{count}}{op}{b:0{count}}"


def short_steps(a, op, b):
    return ", ".join(f"{expression}={value}" for expression, value in steps_of(a, op, b))


def result_of(a, op, b):
    return a + b if op == "+" else a - b


def long_steps(a, op, b):
    parts = []
    for place, (expression, value) in zip(PLACES, steps_of(a, op, b)):
        change = ""
        if op == "+" and value > 9:
            change = ", carry 1"
        elif op == "-" and int(expression.split("-")[0]) > 9:
            change = ", borrow 1"
        parts.append(f"{place}: {expression}={value}, write {value % 10}{change}.")
    return " ".join(parts)


def thinks(a, op, b):
    """The thinking of each effort. A negative difference is worked out the other way round."""
    negative = op == "-" and a < b
    x, y, sign = (b, a, "-") if negative else (a, b, "")
    c = abs(result_of(a, op, b))
    turned = f"{a}<{b}, so -({b}-{a}). " if negative else ""
    low = f"{turned}{aligned(x, op, y)}: {short_steps(x, op, y)}, so {sign}{c}."
    verb = "add" if op == "+" else "subtract"
    high = f"I {verb}: {turned}{aligned(x, op, y)}. {long_steps(x, op, y)} The result is {sign}{c}."
    back = "-" if op == "+" else "+"
    check = f" Check: {aligned(c, back, y)}: {short_steps(c, back, y)}, so {x}. That is right."
    return {"low": low, "high": high, "max": high + check}


def number(rng, most):
    """Few digits as often as many."""
    return rng.randrange(10 ** rng.randint(1, most))


def make(rng, most_digits=3):
    op = choose(rng, "+-")
    a, b = number(rng, most_digits), number(rng, most_digits)
    if rng.random() < 0.5:
        a = rng.randrange(10**most_digits)
        b = rng.randrange(10**most_digits)
    if op == "-" and a < b and rng.random() < 0.5:
        a, b = b, a
    key = f"arithmetic {min(a, b)} {max(a, b)}"
    if rng.random() < 0.12 and a >= b and b > 1:
        return story(rng, a, op, b, key)
    question = choose(rng, QUESTIONS[op]).format(a=a, b=b)
    c = result_of(a, op, b)
    return simple("arithmetic", key, question, thinks(a, op, b), f"{a} {op} {b} = {c}", kind=op)


def story(rng, a, op, b, key):
    which = rng.randrange(2)
    names = {"name": choose(rng, WORDS["name"]), "things": choose(rng, WORDS["thing"][:24]) + "s"}
    answer = STORY_ANSWERS[op][which].format(c=result_of(a, op, b), **names)
    question = STORIES[op][which].format(a=a, b=b, **names)
    return simple("arithmetic", key, question, thinks(a, op, b), answer, kind="story")
