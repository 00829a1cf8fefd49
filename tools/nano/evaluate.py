#!/usr/bin/env python3
"""Measures a nano checkpoint on tasks that training cannot have seen, by greedy replies, and prints a table.

A reply counts if its frames are complete and its answer is exactly the right one: the text, the JSON value, the
calls with all their arguments. Exit status 1 if a number is below what is required of it.
"""

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path

import torch

import chat
import world
from counting import count_choices, routers_of
from decode import replies
from tokenizer import Tokenizer

import k3
from model import Options

LEVELS = ("low", "high", "max", None)
REQUIRED = {"arithmetic, thinking": 0.95, "calls": 0.90, "calls, two": 0.90, "lookup": 0.95}
FRAMES, MOST_TOKENS, BATCH = "frames", 400, 25
DISTANCES = (250, 500, 750, 1000, 10**6)  # of a fact from the end of the prompt, in ids


class Question:
    """One reply to be measured: a prompt, what is right, and the rows of the table it counts for."""

    def __init__(self, tokenizer, task, index, level, rows):
        messages = [m for r in task.rounds[:index] for m in (*r.incoming, r.assistant(level))]
        self.task, self.round, self.level, self.rows = task, task.rounds[index], level, rows
        choice = task.tool_choice if index == 0 else None
        conversation = chat.Conversation(
            messages + self.round.incoming, level is not None, level, task.tools, choice, task.response_format
        )
        self.prompt = chat.prompt_ids(tokenizer, conversation)

    def right(self, reply):
        """`reply` as chat.parse_reply gives it."""
        if reply is None:
            return False
        _, response, calls = reply
        if sorted(map(chat.compact, calls)) != sorted(map(chat.compact, self.round.calls)):
            return False
        if self.task.ability != "json":
            return response == self.round.assistant(self.level)["content"]
        try:
            return json.loads(response) == json.loads(self.round.response)
        except ValueError:
            return False


def levels(count):
    return [LEVELS[i % len(LEVELS)] for i in range(count)]


def arithmetic_questions(tokenizer, count):
    for i, level in enumerate(levels(count)):
        row = "arithmetic, thinking" if level else "arithmetic, no thinking"
        task = world.measured_task("arithmetic", i)
        yield Question(tokenizer, task, 0, level, [row, f"arithmetic, {level or 'off'}"])


def tools_questions(tokenizer, count):
    for i, level in enumerate(levels(count)):
        task = world.measured_task("tools", i)
        yield Question(tokenizer, task, 0, level, ["calls", f"calls, {task.kind}"])
        if len(task.rounds) > 1:
            yield Question(tokenizer, task, 1, level, ["results told"])


def lookup_questions(tokenizer, count):
    """Facts of different kinds, then, counted apart, texts with several facts of a kind, and facts that are not there."""
    for i, level in enumerate(levels(count)):
        question = lookup_question(tokenizer, i, level, "lookup", alike=False, missing=0)
        away = distance(tokenizer, question.prompt, question.round.thinks["low"].removeprefix("The text says: "))
        reach = next(d for d in DISTANCES if away <= d)
        question.rows.append(
            f"lookup, {reach:4} ids back at most" if reach < 10**6 else "lookup, more than 1000 ids back"
        )
        yield question
    for i, level in enumerate(levels(count)):
        yield lookup_question(tokenizer, i, level, "lookup among facts alike", alike=True, missing=0)
        how = "thinking" if level else "no thinking"
        yield lookup_question(tokenizer, i, level, f"missing, {how}", alike=False, missing=1)
        yield lookup_question(tokenizer, i, level, f"missing among facts alike, {how}", alike=True, missing=1)


def lookup_question(tokenizer, index, level, row, **options):
    least = 3 if index % 8 < 4 else 120  # half of the texts are long
    task = world.measured_task("lookup", index, questions=1, least_sentences=least, **options)
    return Question(tokenizer, task, len(task.rounds) - 1, level, [row])


def distance(tokenizer, prompt, statement):
    """How many ids before the prompt's end the statement begins."""
    for text in (" " + statement, statement):
        ids = tokenizer.encode(text)
        for at in range(len(prompt) - len(ids)):
            if prompt[at : at + len(ids)] == ids:
                return len(prompt) - at
    raise ValueError(f"the prompt does not say: {statement}")


def other_questions(ability):
    def questions(tokenizer, count):
        for i, level in enumerate(levels(count)):
            task = world.measured_task(ability, i)
            yield Question(tokenizer, task, 0, level, [ability, f"{ability}, {task.kind}"])

    return questions


QUESTIONS = {
    "arithmetic": arithmetic_questions,
    "tools": tools_questions,
    "lookup": lookup_questions,
    "json": other_questions("json"),
    "talk": other_questions("talk"),
    "repeat": other_questions("repeat"),
}


class Table:
    def __init__(self):
        self.right, self.asked = defaultdict(int), defaultdict(int)
        self.thinking = defaultdict(list)
        self.wrong = []

    def add(self, tokenizer, question, ids):
        reply = chat.parse_reply(tokenizer, ids, question.level is not None)
        right = question.right(reply)
        for row, passed in [(FRAMES, reply is not None), *((row, right) for row in question.rows)]:
            self.asked[row] += 1
            self.right[row] += passed
        if reply and question.level:
            self.thinking[question.level].append(len(tokenizer.encode(reply[0])))
        if not right:
            self.wrong.append((question.round.incoming[-1]["content"][-200:], tokenizer.decode(ids)))

    def result(self):
        rows = {row: {"right": self.right[row], "asked": self.asked[row]} for row in sorted(self.asked)}
        mean = {level: round(sum(n) / len(n), 1) for level, n in self.thinking.items() if n}
        return {"rows": rows, "mean_thinking_ids": mean}


def measure(model, tokenizer, count, abilities):
    table, end = Table(), tokenizer.special["<|end_of_msg|>"]
    for ability in abilities:
        questions = sorted(QUESTIONS[ability](tokenizer, count), key=lambda q: len(q.prompt))
        for at in range(0, len(questions), BATCH):
            part = questions[at : at + BATCH]
            for question, ids in zip(part, replies(model, [q.prompt for q in part], end, MOST_TOKENS)):
                table.add(tokenizer, question, ids)
    return table


def print_result(result):
    for row, n in result["rows"].items():
        required = f"   required {REQUIRED[row]:.0%}" if row in REQUIRED else ""
        print(f"{row:32} {n['right']:5} of {n['asked']:5}  {n['right'] / n['asked']:6.1%}{required}")
    print("mean ids of thinking:", ", ".join(f"{k} {v}" for k, v in result["mean_thinking_ids"].items()))
    print("share of each expert, in parts of an equal share (smallest, median, largest), by layer:")
    for layer, counts in enumerate(result["expert_counts"]):
        shares = sorted(c * len(counts) / sum(counts) for c in counts)
        print(f"  {layer + 1}: {shares[0]:.2f} {shares[len(shares) // 2]:.2f} {shares[-1]:.2f}")


def fails(result):
    rows = result["rows"]
    return [r for r, least in REQUIRED.items() if r in rows and rows[r]["right"] < least * rows[r]["asked"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path, help="checkpoint")
    parser.add_argument("--count", type=int, default=200, help="tasks of each ability")
    parser.add_argument("--abilities", nargs="+", default=list(QUESTIONS), choices=list(QUESTIONS))
    parser.add_argument("--json", type=Path, help="write the numbers here, for the model card")
    parser.add_argument("--wrong", type=int, default=0, help="print so many wrong replies")
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = k3.load(args.folder, Options(kda_chunk=32))
    counts, tokenizer = [count_choices(router) for router in routers_of(model)], Tokenizer()
    table = measure(model, tokenizer, args.count, args.abilities)
    result = table.result() | {"expert_counts": [c.tolist() for c in counts]}
    print_result(result)
    for question, reply in table.wrong[: args.wrong]:
        print(f"\n? {question}\n! {reply}")
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if fails(result) else 0


if __name__ == "__main__":
    sys.exit(main())
