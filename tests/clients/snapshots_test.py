"""A server that is killed loses no state of a prompt but the one that it is writing.

Again and again: what was written is there and right, more prompts are asked, and the process dies at a random moment.
"""

import contextlib
import json
import random
import threading
import time
import urllib.error

import pytest
from _server import serving

KILLS = 20
RULES = "You are helper number {}. You answer in few words and you never say more than is needed."
LEAST_CACHED = 20  # ids of the rules alone


def request(number):
    messages = [{"role": "system", "content": RULES.format(number)}, {"role": "user", "content": "Hello."}]
    return {"messages": messages, "max_tokens": 2, "temperature": 0, "reasoning_effort": "none", "logprobs": True}


def ask(server, number):
    """How many tokens came from a snapshot, and the reply with all its numbers."""
    answer = server.post("/v1/chat/completions", request(number))
    return answer["usage"]["cached_tokens"], json.dumps(answer["choices"])


def ask_until_killed(server, numbers):
    with contextlib.suppress(OSError, urllib.error.URLError, ValueError):
        for number in numbers:
            ask(server, number)


def settled(server):
    """Waits until what was asked is in files."""
    counts = []
    while len(counts) < 4 or len(set(counts[-4:])) > 1:
        counts.append(server.state()["prefixes"]["in_folder"])
        time.sleep(0.05)
    return counts[-1]


def expect_well(server):
    prefixes = server.state()["prefixes"]
    assert (prefixes["damaged"], prefixes["failed_writes"]) == (0, 0)
    assert not [line for line in server.log if "error" in line or "warning" in line]


@pytest.fixture(scope="module")
def replies():
    """What the prompts are answered without any snapshot."""
    with serving("--prefix-memory", 0) as server:
        return [ask(server, number)[1] for number in range(KILLS)]


def test_kills_lose_only_what_is_being_written(tmp_path, replies):
    rng = random.Random(20)
    options = ["--prefix-memory", 0, "--prefix-folder", tmp_path]
    kept = 0
    for number in range(KILLS):
        with serving(*options) as server:
            expect_well(server)
            assert server.state()["prefixes"]["in_folder"] >= kept
            for earlier in {rng.randrange(number), number - 1} if number else ():
                cached, reply = ask(server, earlier)
                assert cached > LEAST_CACHED and reply == replies[earlier]
            assert ask(server, number)[1] == replies[number]
            kept = settled(server)
            unfinished = [1000 * number + i for i in range(1, 50)]
            others = [threading.Thread(target=ask_until_killed, args=(server, unfinished[i::2])) for i in range(2)]
            for other in others:
                other.start()
            time.sleep(rng.uniform(0, 0.6))
            server.kill()
            for other in others:
                other.join()
    with serving(*options) as server:
        expect_well(server)
        for number in range(KILLS):
            cached, reply = ask(server, number)
            assert cached > LEAST_CACHED and reply == replies[number]
        settled(server)
        assert len(list(tmp_path.rglob("*"))) <= server.state()["prefixes"]["in_folder"] + 1  # and the lock
