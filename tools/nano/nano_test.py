#!/usr/bin/env python3
"""Tests of the nano model's training tools; they need no checkpoint and no program."""

import json
import re
import tempfile
import unittest
from pathlib import Path

import torch

import arithmetic
import batches
import chat
import lookup
import export
import talk
import world
from decode import replies
from muon import orthogonalised
from sizes import model_config
from task import held_out, seeded
from tokenizer import Tokenizer

import k3
from initialise import initialise
from model import Model, Options

TOKENIZER = Tokenizer()
STEP = re.compile(r"(\d+(?:[+-]\d+)+)=(\d+)")


torch.set_num_threads(1)


def random_model(quantised_experts=False):
    torch.manual_seed(3)
    return initialise(Model(model_config(), Options(quantised_experts=quantised_experts))).requires_grad_(False)


class Arithmetic(unittest.TestCase):
    def test_every_step_is_true_and_the_last_digits_give_the_answer(self):
        rng = seeded("test", 1)
        for _ in range(3000):
            a, b = arithmetic.number(rng, 3), arithmetic.number(rng, 3)
            for op in "+-":
                x, y = (b, a) if op == "-" and a < b else (a, b)
                steps = STEP.findall(arithmetic.short_steps(x, op, y))
                for expression, value in steps:
                    terms = re.findall(r"[+-]?\d+", expression)
                    self.assertEqual(sum(map(int, terms)), int(value))
                read = steps[-1][1] + "".join(value[-1] for _, value in reversed(steps[:-1]))
                self.assertEqual(int(read), x + y if op == "+" else x - y)

    def test_more_effort_means_longer_thinking(self):
        thinks = arithmetic.thinks(347, "-", 285)
        self.assertLess(len(thinks["low"]), len(thinks["high"]))
        self.assertLess(len(thinks["high"]), len(thinks["max"]))


class Split(unittest.TestCase):
    def test_no_measured_key_is_in_training(self):
        for ability, options in (
            ("arithmetic", {}),
            ("tools", {}),
            ("lookup", {"questions": 1}),
            ("lookup", {"questions": 1, "missing": 1}),
            ("json", {}),
            ("talk", {}),
            ("repeat", {}),
        ):
            for i in range(30):
                self.assertTrue(all(map(held_out, world.measured_task(ability, i, **options).keys)), ability)
        for i in range(300):
            rng = seeded("train", 1, i)
            for task in world.tasks_of(rng, world.Stage()):
                self.assertFalse(any(map(held_out, task.keys + task.beside)))

    def test_every_fact_can_be_trained_and_some_wordings_are_measured(self):
        for ways, _, facts in talk.ASKED.values():
            for x in facts:
                seen = [not held_out(talk.with_articles(way.format(x=x))) for way in ways]
                self.assertTrue(any(seen), x)


class Lookup(unittest.TestCase):
    def test_facts_are_of_different_kinds_or_alike(self):
        for i in range(100):
            facts, absent = lookup.different_facts(seeded(i), 2 + i % 6)
            self.assertEqual(len({relation for relation, _ in facts}), 2 + i % 6)
            self.assertFalse({relation for relation, _ in facts} & {relation for relation, _ in absent})
            facts, absent = lookup.alike_facts(seeded(i), 12)
            self.assertEqual(len(facts), 12)
            self.assertFalse(facts.keys() & set(absent))

    def test_the_text_says_what_is_answered(self):
        for i in range(100):
            task = lookup.make(seeded(i))
            text = task.rounds[0].incoming[0]["content"]
            for r in task.rounds[task.rounds[0].response == lookup.ACKNOWLEDGED :]:
                found = r.thinks["low"].removeprefix("The text says: ") in text
                self.assertEqual(found, r.response != lookup.MISSED)

    def test_as_many_questions_have_no_answer_as_is_asked_for(self):
        for missing in (0, 1):
            for i in range(30):
                rounds = lookup.make(seeded(i), questions=2, missing=missing).rounds[-2:]
                said = [r.response == lookup.MISSED for r in rounds]
                self.assertEqual(said, [missing == 1] * 2)


class Conversations(unittest.TestCase):
    def test_the_same_seed_gives_the_same_conversation(self):
        first = world.training_conversation(5, 17, 1.0)[1].request()
        self.assertEqual(first, world.training_conversation(5, 17, 1.0)[1].request())
        self.assertNotEqual(first, world.training_conversation(6, 17, 1.0)[1].request())

    def test_what_is_learnt_is_what_a_reader_of_replies_finds(self):
        for i in range(200):
            _, conversation = world.training_conversation(1, i, 1.0)
            ids, learn = chat.training_ids(TOKENIZER, conversation)
            for said, message in zip(learnt_runs(ids, learn), assistant_messages(conversation)):
                think, response, calls = chat.parse_reply(TOKENIZER, said, conversation.thinking)
                self.assertEqual(response, message["content"])
                self.assertEqual(think, message.get("reasoning_content") if conversation.thinking else None)
                wanted = [
                    (c["function"]["name"], json.loads(c["function"]["arguments"]))
                    for c in message.get("tool_calls", [])
                ]
                self.assertEqual(calls, wanted)

    def test_broken_replies_are_not_read(self):
        end = "<|close|>message<|sep|><|end_of_msg|>"
        good = "a<|close|>think<|sep|><|open|>response<|sep|>b<|close|>response<|sep|>"
        self.assertIsNotNone(chat.parse_reply(Fixed(good + end), [], True))
        for bad in (
            good,
            good[1:-7] + end,
            "b" + end,
            good + "<|open|>tools<|sep|><|close|>tools<|sep|>" + end,
            good + "x" + end,
        ):
            self.assertIsNone(chat.parse_reply(Fixed(bad), [], True), bad)


class Fixed:
    """A tokenizer whose ids decode to one text."""

    def __init__(self, text):
        self.text = text

    def decode(self, _):
        return self.text


def learnt_runs(ids, learn):
    runs, run = [], []
    for token, marked in zip([*ids, 0], [*learn, False]):
        if marked:
            run.append(token)
        elif run:
            runs.append(run)
            run = []
    return runs


def assistant_messages(conversation):
    return [m for m in conversation.messages if m["role"] == "assistant"]


class Batches(unittest.TestCase):
    def test_targets_are_the_next_ids_of_the_assistant_and_nothing_is_lost(self):
        pool = batches.pool_of(TOKENIZER, 1, 0, 1.0)
        made = batches.batches_of(TOKENIZER, 1, 0, 1.0, 4096)
        self.assertEqual(sum(len(b.abilities) for b in made), len(pool))
        self.assertEqual(sum(int((b.targets >= 0).sum()) for b in made), sum(sum(learn) for _, learn, _ in pool))
        for batch in made:
            follows, pad = torch.roll(batch.ids, -1, dims=1), TOKENIZER.special["[PAD]"]
            inside = (batch.targets >= 0) & (follows != pad)
            inside[:, -1] = False
            self.assertTrue((batch.targets[inside] == follows[inside]).all())
            self.assertGreater(int(inside.sum()), 0.9 * int((batch.targets >= 0).sum()))


class Decoding(unittest.TestCase):
    def test_a_batch_of_prompts_gives_what_each_gives_alone(self):
        model, end = random_model(), TOKENIZER.special["<|end_of_msg|>"]
        prompts = [[7, 8, 9] * 4, list(range(300, 341)), [5]]
        together = replies(model, prompts, end, 6)
        for prompt, ids in zip(prompts, together):
            self.assertEqual(ids, k3.greedy(model, prompt, 6)[0])


class Muon(unittest.TestCase):
    def test_singular_values_become_about_one(self):
        torch.manual_seed(1)
        for shape in ((48, 96), (96, 48), (3, 64, 96)):
            values = torch.linalg.svdvals(orthogonalised(torch.randn(shape)))
            self.assertGreater(float(values.min()), 0.4)
            self.assertLess(float(values.max()), 1.4)


class Export(unittest.TestCase):
    def test_the_checkpoint_computes_what_training_computed(self):
        model = random_model(quantised_experts=True)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            total = export.write_tensors(model, folder)
            export.write_json(folder / "config.json", export.released_config(TOKENIZER))
            self.assertLess(total, 12e6)
            ids = torch.arange(40)[None]
            rounded = random_model(quantised_experts=True)
            for parameter_name, parameter in rounded.named_parameters():
                if not export.keeps_float32(parameter_name):
                    parameter.copy_(parameter.bfloat16().float())
            difference = k3.load(folder)(ids)[0] - rounded(ids)[0]
            self.assertLess(float(difference.abs().max()), 1e-5)


if __name__ == "__main__":
    unittest.main()
