#!/usr/bin/env python3
"""Compares the Python tokenizer and renderer with the program's, on conversations of the nano world and on odd text.

Usage: check_against_program.py PERIGEE [--conversations N]. Exits with 1 at the first difference.
"""

import argparse
import json
import subprocess
import sys

import chat
import world
from tokenizer import MODEL_FOLDER, Tokenizer

ODD_TEXT = (
    "  leading  double   spaces ",
    "\n\n\n\tcode\n    indent\n",
    "I'm don't WE'LL it'S",
    "1234567 3.14159e-10 0xFF",
    "AB\u4f60\u597dc \u65e5\u672c\u3005",
    "e\u0301\u0301 n\u00e9 \U0001f469\u200d\U0001f467",
    "<|open|>message<|sep|>",
    "snake_case CamelCase HTTPServer kebab-case",
    '{"a": [1, 2.5, null, true]}',
    "a \n b\r\n\r\n",
    "\u00a0\u3000x\u2028",
)


def run(program, command, text, *options):
    done = subprocess.run(
        [program, command, "-", "--vocab", str(MODEL_FOLDER), *options],
        input=text.encode(),
        capture_output=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{command}: {done.stderr.decode()}")
    return [int(token) for token in done.stdout.split()]


def expect_equal(ours, theirs, what):
    if ours != theirs:
        at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
        sys.exit(
            f"differs at id {at}: {ours[at : at + 8]} here, {theirs[at : at + 8]} from the program; in: {what!r}"
        )


def prompt_of(conversation):
    """The conversation up to its last reply."""
    messages = conversation.messages
    last = max(i for i, m in enumerate(messages) if m["role"] == "assistant")
    conversation.messages = messages[:last]
    return conversation


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("program", help="the built perigee")
    parser.add_argument("--conversations", type=int, default=100)
    args = parser.parse_args()
    tokenizer = Tokenizer()
    for text in ODD_TEXT:
        expect_equal(tokenizer.encode(text), run(args.program, "tokenize", text), text)
    for index in range(args.conversations):
        _, conversation = world.training_conversation(7, index, 1.0)
        whole, learn = chat.training_ids(tokenizer, conversation)
        conversation = prompt_of(conversation)
        ours = chat.prompt_ids(tokenizer, conversation)
        request = json.dumps(conversation.request())
        options = ["--ids", "--effort", conversation.effort or "unset"]
        expect_equal(ours, run(args.program, "render", request, *options), request)
        expect_equal(whole[: len(ours)], ours, request)
        if not all(learn[len(ours) :]) or learn[len(ours) - 1]:
            sys.exit(f"conversation {index}: the learnt ids are not the reply")
    print(f"equal: {len(ODD_TEXT)} texts, {args.conversations} prompts")
    return 0


if __name__ == "__main__":
    sys.exit(main())
