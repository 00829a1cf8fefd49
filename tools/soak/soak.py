#!/usr/bin/env python3
"""Keeps a server busy for a while and looks whether it stays as it was.

Starts `perigee serve` on a free port, sends it mixed requests from several clients (whole and streamed answers, long
and short prompts, tools, JSON formats, errors, clients that leave in the middle), and notes its memory, its open
files and its threads every second. At the end it draws them, and fails if memory or files have grown, if an answer was
not what its kind of request gets, or if the server did not end by itself.

  tools/soak/soak.py PERIGEE [--model models/nano] [--minutes 20] [--clients 6] [--svg FILE]

Only the standard library; loopback only. The exit status is 0 if all is well, 1 if not.
"""

import argparse
import http.client
import json
import random
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

MOST_GROWTH = 0.05         # of memory, from the second quarter of the time to the last
LEAST_GROWTH = 16 << 20    # bytes that an allocator may take its time with
MOST_MORE_FILES = 3        # at the end, when all clients have left
PATIENCE = 120             # seconds for one answer
WORDS = "water time story light road night music paper stone river house field".split()
WEATHER = {"type": "function", "function": {
    "name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}},
                                      "required": ["city"], "additionalProperties": False}}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "point", "schema": {
    "type": "object", "properties": {"x": {"type": "integer"}, "on": {"type": "boolean"}}, "required": ["x", "on"],
    "additionalProperties": False}}}


class Sample(NamedTuple):
    seconds: float
    memory: int
    files: int
    threads: int


class Server:
    def __init__(self, program, model, options):
        command = [program, "serve", "-m", model, "--port", "0", *options]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True)
        self.port = None
        self.lines = []
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        while self.port is None:
            if self.process.poll() is not None:
                sys.exit("the server ended before it listened:\n" + "".join(self.lines))
            time.sleep(0.05)

    def read(self):
        for line in self.process.stderr:
            found = re.search(r"listening on http://127\.0\.0\.1:(\d+)", line)
            if found:
                self.port = int(found[1])
            self.lines = self.lines[-20:] + [line]

    def sample(self, since):
        proc = Path(f"/proc/{self.process.pid}")
        status = (proc / "status").read_text()
        return Sample(time.monotonic() - since, int(re.search(r"VmRSS:\s+(\d+)", status)[1]) << 10,
                      sum(1 for _ in (proc / "fd").iterdir()), int(re.search(r"Threads:\s+(\d+)", status)[1]))

    def stop(self):
        """None if it ended by itself and well, else a sentence."""
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return "the server did not end within a minute of SIGTERM"
        return None if status == 0 else f"the server ended with status {status}:\n" + "".join(self.lines)


def text(chance, count):
    return " ".join(chance.choices(WORDS, k=count))


def chat(chance, words=12, **fields):
    return {"messages": [{"role": "user", "content": text(chance, words)}],
            "max_tokens": chance.randint(1, 40), **fields}


class Client:
    """Sends requests until it is told to stop; every kind knows what its answer must be."""

    def __init__(self, port, seed, failures):
        self.port = port
        self.chance = random.Random(seed)
        self.failures = failures
        self.counts = Counter()
        self.kinds = [self.whole, self.stream, self.long_prompt, self.conversation, self.tools, self.schema,
                      self.completion, self.leaves_stream, self.leaves_early, self.wrong, self.no_json, self.lookups]

    def run(self, stop):
        while not stop.is_set():
            kind = self.chance.choice(self.kinds)
            try:
                problem = kind()
            except (OSError, http.client.HTTPException, ValueError) as error:
                problem = f"{type(error).__name__}: {error}"
            self.counts[kind.__name__] += 1
            if problem:
                self.failures.append(f"{kind.__name__}: {problem}")

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def post(self, path, body, expected=200):
        connection = self.connect()
        raw = body if isinstance(body, str) else json.dumps(body)
        connection.request("POST", path, raw)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        if answer.status != expected:
            raise ValueError(f"status {answer.status} instead of {expected}: {content[:300]!r}")
        return content

    def message(self, body):
        return json.loads(self.post("/v1/chat/completions", body))["choices"][0]

    def whole(self):
        choice = self.message(chat(self.chance, temperature=0.7))
        return None if choice["finish_reason"] in ("stop", "length") else f"ended by {choice['finish_reason']}"

    def stream(self):
        content = self.post("/v1/chat/completions", chat(self.chance, stream=True))
        return None if content.endswith(b"data: [DONE]\n\n") else f"a stream without its end: {content[-200:]!r}"

    def long_prompt(self):
        self.message(chat(self.chance, words=self.chance.randint(300, 1200)))

    def conversation(self):
        body = chat(self.chance, words=60)
        for _ in range(3):
            said = self.message(body)["message"]["content"] or "."
            body["messages"] += [{"role": "assistant", "content": said}, {"role": "user", "content": "And then?"}]

    def tools(self):
        choice = self.message(chat(self.chance, tools=[WEATHER], tool_choice="required") | {"max_tokens": 300})
        for call in choice["message"].get("tool_calls", []):
            if choice["finish_reason"] == "tool_calls":
                json.loads(call["function"]["arguments"])

    def schema(self):
        choice = self.message(chat(self.chance, response_format=SCHEMA) | {"max_tokens": 300})
        if choice["finish_reason"] == "stop":
            json.loads(choice["message"]["content"])

    def completion(self):
        self.post("/v1/completions", {"prompt": text(self.chance, 20), "max_tokens": 10, "logprobs": 2})

    def leaves_stream(self):
        connection = self.connect()
        body = chat(self.chance, stream=True) | {"max_tokens": 400}
        connection.request("POST", "/v1/chat/completions", json.dumps(body))
        answer = connection.getresponse()
        answer.read(self.chance.randint(1, 2000))
        connection.close()

    def leaves_early(self):
        connection = self.connect()
        connection.request("POST", "/v1/chat/completions", json.dumps(chat(self.chance, words=500)))
        time.sleep(self.chance.random() * 0.05)
        connection.close()

    def wrong(self):
        body = chat(self.chance) | self.chance.choice(
            [{"temperature": 9}, {"messages": []}, {"max_tokens": 10**9}, {"stop": [""]}, {"priority": -1}])
        self.post("/v1/chat/completions", body, expected=400)

    def no_json(self):
        self.post("/v1/chat/completions", '{"messages": [' + "[" * self.chance.randint(1, 2000), expected=400)

    def lookups(self):
        for path in ("/health", "/metrics", "/v1/state", "/v1/models", "/openapi.json"):
            connection = self.connect()
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            connection.close()
            if answer.status != 200:
                return f"{path} has status {answer.status}"
        return None


def quarter(samples, number):
    size = len(samples) // 4
    return samples[number * size:(number + 1) * size] or samples


def growth_problem(samples):
    """Compares the second quarter with the last: what grows for ever has grown between them."""
    early = statistics.median(sample.memory for sample in quarter(samples, 1))
    late = statistics.median(sample.memory for sample in quarter(samples, 3))
    if late - early > max(MOST_GROWTH * early, LEAST_GROWTH):
        return f"memory has grown from {early / 2**20:.1f} to {late / 2**20:.1f} MiB"
    return None


def curve(values, width=72):
    """One line of text, from the lowest value to the highest."""
    bars = "▁▂▃▄▅▆▇█"
    step = max(len(values) / width, 1)
    picked = [values[int(i * step)] for i in range(min(width, len(values)))]
    low, high = min(values), max(values)
    return "".join(bars[int((value - low) / (high - low) * 7) if high > low else 0] for value in picked)


def svg(samples):
    rows = [("memory, MiB", [sample.memory / 2**20 for sample in samples]),
            ("open files", [sample.files for sample in samples]), ("threads", [sample.threads for sample in samples])]
    end = max(samples[-1].seconds, 1)
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" width="720" height="480" font-family="sans-serif" font-size="12">']
    for row, (name, values) in enumerate(rows):
        top, high = 30 + 150 * row, max(max(values), 1)
        points = " ".join(f"{20 + 680 * sample.seconds / end:.1f},{top + 110 - 100 * value / high:.1f}"
                          for sample, value in zip(samples, values))
        parts.append(f'<text x="20" y="{top}">{name}: {min(values):.0f} to {max(values):.0f}</text>'
                     f'<polyline fill="none" stroke="#36c" points="{points}"/>'
                     f'<line x1="20" x2="700" y1="{top + 110}" y2="{top + 110}" stroke="#999"/>')
    return "\n".join(parts) + "\n</svg>\n"


def soak(server, minutes, clients, seed):
    """Samples, numbers of requests by kind, and what went wrong."""
    failures, samples, stop = [], [], threading.Event()
    workers = [Client(server.port, seed + number, failures) for number in range(clients)]
    threads = [threading.Thread(target=worker.run, args=(stop,), daemon=True) for worker in workers]
    begin = time.monotonic()
    idle = server.sample(begin)
    for thread in threads:
        thread.start()
    while time.monotonic() - begin < 60 * minutes and server.process.poll() is None:
        time.sleep(1)
        samples.append(server.sample(begin))
    stop.set()
    for thread in threads:
        thread.join(2 * PATIENCE)
    if server.process.poll() is not None:
        return samples, Counter(), ["the server ended:\n" + "".join(server.lines)]
    time.sleep(3)
    last = server.sample(begin)
    if last.files > idle.files + MOST_MORE_FILES:
        failures.append(f"{idle.files} files were open at the beginning and {last.files} are at the end")
    problem = growth_problem(samples)
    if problem:
        failures.append(problem)
    return samples, sum((worker.counts for worker in workers), Counter()), failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parser.add_argument("program", metavar="PERIGEE")
    parser.add_argument("--model", default="models/nano")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--svg", type=Path, help="write the curves here")
    parser.add_argument("--serve-options", default="--prefix-memory 16MiB --max-running 4",
                        help="more options of perigee serve; a small cache is full soon (default: %(default)s)")
    arguments = parser.parse_args()
    server = Server(arguments.program, arguments.model, arguments.serve_options.split())
    try:
        samples, counts, failures = soak(server, arguments.minutes, arguments.clients, arguments.seed)
        end = server.stop() if server.process.poll() is None else None
    finally:
        server.process.kill()  # nothing if it has ended
    if end:
        failures.append(end)
    print(f"{sum(counts.values())} requests in {samples[-1].seconds:.0f} s: "
          + ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items())))
    for name, values in (("memory, MiB", [sample.memory / 2**20 for sample in samples]),
                         ("open files", [sample.files for sample in samples]),
                         ("threads", [sample.threads for sample in samples])):
        print(f"{name:<12} {min(values):7.1f} … {max(values):7.1f}  {curve(values)}")
    if arguments.svg:
        arguments.svg.write_text(svg(samples), encoding="utf-8")
    for failure in failures[:20]:
        print(f"FAILED {failure}")
    print("flat" if not failures else f"{len(failures)} failures")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
