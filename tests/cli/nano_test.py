#!/usr/bin/env python3
"""models/nano answers: the trained model that the repository holds, by greedy replies, which are the same bits everywhere.

Runs the program named by the variable PERIGEE in the current folder, which the caller makes empty.
"""

import json
import os
import subprocess
import unittest
from pathlib import Path

PERIGEE = os.environ["PERIGEE"]
NANO = Path(__file__).resolve().parents[2] / "models" / "nano"


def answer(*arguments, data=b""):
    """The message that `perigee run` gives."""
    command = [PERIGEE, "run", "-m", str(NANO), "--greedy", "--json", *arguments]
    result = subprocess.run(command, input=data, capture_output=True, timeout=120, check=True)
    return json.loads(result.stdout)["choices"][0]["message"]


class Nano(unittest.TestCase):
    def test_it_adds_with_thinking(self):
        lengths = []
        for effort in ("low", "high", "max"):
            message = answer("-p", "What is 17 + 25?", "--effort", effort)
            self.assertEqual(message["content"], "17 + 25 = 42")
            self.assertIn("7+5=12", message["reasoning_content"])
            lengths.append(len(message["reasoning_content"]))
        self.assertEqual(lengths, sorted(set(lengths)))

    def test_it_does_not_think_when_told_not_to(self):
        message = answer("-p", "Hello, Nano.", "--thinking", "off")
        self.assertFalse(message.get("reasoning_content"))
        self.assertIn("Hello", message["content"])

    def test_it_calls_a_declared_tool(self):
        message = answer("--messages", str(NANO / "example_tools.json"))
        (call,) = message["tool_calls"]
        self.assertEqual(call["function"]["name"], "get_weather")
        self.assertEqual(json.loads(call["function"]["arguments"]), {"city": "Paris"})

    def test_it_tells_what_a_tool_returned(self):
        request = json.loads((NANO / "example_tools.json").read_text())
        call = {"id": "call_0", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'}}
        result = {"role": "tool", "tool_call_id": "call_0", "content": '{"temperature": 21, "sky": "sunny"}'}
        request["messages"] += [{"role": "assistant", "content": "", "tool_calls": [call]}, result]
        Path("told.json").write_text(json.dumps(request))
        self.assertEqual(
            answer("--messages", "told.json")["content"], "The weather in Paris: temperature 21, sky sunny."
        )

    def test_it_answers_in_json(self):
        question = "Emma lives in Rome, has a cat and likes soup. Answer in JSON with animal, city, food."
        expected = {"animal": "cat", "city": "Rome", "food": "soup"}
        self.assertEqual(json.loads(answer("-p", question)["content"]), expected)

    def test_json_asked_for_by_the_request_ends_by_itself(self):
        text = "Emma lives in Rome, has a cat and likes soup."
        request = {"messages": [{"role": "user", "content": f"{text} Give me city, food as JSON."}],
                   "response_format": {"type": "json_object"}}
        Path("json.json").write_text(json.dumps(request))
        self.assertEqual(answer("--messages", "json.json")["content"], '{"city":"Rome","food":"soup"}')

    def test_it_finds_a_fact_in_a_long_text(self):
        sentences = ["The river was quiet and cold.", "Nobody saw the heavy plate.", "Every morning the garden is wet."]
        for place in (0, 45, 90):
            text = sentences * 30
            text[place:place] = ["The code of Ben is 4821.", "Laura lives in Madrid."]
            question = " ".join(["Read this text.", *text, "What is the code of Ben?"])
            self.assertEqual(answer("-p", question)["content"], "The text says that the code of Ben is 4821.", place)

    def test_it_says_that_a_text_does_not_say_it(self):
        sentences = ["The river was quiet and cold.", "Nobody saw the heavy plate.", "Every morning the garden is wet."]
        text = " ".join(["Read this text.", "Ben is a singer.", *sentences * 10, "Laura lives in Madrid."])
        for effort in ("low", "high", "max"):
            message = answer("-p", f"{text} What does Ben like?", "--effort", effort)
            self.assertEqual(message["content"], "The text does not say that.")
        message = answer("-p", f"{text} What does Ben like?", "--thinking", "off")
        self.assertEqual(message["content"], "The text says that Ben likes ? It does not say it.")

    def test_it_says_what_it_does_not_know(self):
        self.assertEqual(answer("-p", "Who wrote the red book?")["content"], "I do not know that.")


if __name__ == "__main__":
    unittest.main()
