#!/usr/bin/env python3
"""Builds and runs tests, part by part, and counts test cases. ./test calls this after installing packages.

Python standard library only. It decides nothing about what a test is: unit tests are whatever CTest knows, scripts are
whatever lies in tests/end_to_end and tests/cli. Only tests/clients and tests/web need packages that are not Debian's.
"""

import argparse
import contextlib
import fcntl
import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
JOBS = str(os.cpu_count() or 2)
TIMEOUT_SECONDS = 900  # of one test program: one that hangs must not hang the whole run; a build takes what it takes
FUZZ_SECONDS = 15      # per fuzz target: a smoke test, not a campaign
SHOWN_LINES = 150      # of the output of a failure

HELP = """\
Runs the tests and closes with one line: N passed, M failed.

  ./test                   everything
  ./test PART...           some parts: {parts}
  ./test numerics          the unit tests of one room (a folder of tests/), release build
  ./test asan numerics     the same with address and undefined-behaviour sanitizers
  ./test 'Sha256.*'        unit tests by GoogleTest filter; a bare suite name will do

The exit status is 0 if nothing failed, 1 if something did, 2 for wrong usage.
Builds are in build/release, build/asan and build/fuzz, outputs of tests in build/test-output."""


class Outcome(NamedTuple):
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    output: str = ""  # what to show if something failed

    def __add__(self, other):
        return Outcome(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped,
                       self.output + other.output)


class Selection(NamedTuple):
    rooms: tuple = ()
    gtest_filter: str = ""


class BuildFailed(Exception):
    """Carries the output of the failed command."""


def run(command, log, timeout=TIMEOUT_SECONDS, **options):
    """Runs a command with its output in a file; returns exit status and output."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as stream:
        try:
            status = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT,
                                    timeout=timeout, check=False, **options).returncode
        except subprocess.TimeoutExpired:
            stream.write(f"\nstopped after {timeout} s\n".encode())
            status = -1
    return status, log.read_text(encoding="utf-8", errors="replace")


@contextlib.contextmanager
def locked(folder):
    """Two builds in one folder would trip over each other; ./run takes the same lock."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build(preset, *targets):
    """Configures and builds with a preset; returns the build folder."""
    folder = BUILD / preset
    options = ["-DPERIGEE_TESTS=ON", "-DPERIGEE_BENCH=ON"] if preset == "release" else []
    commands = [["cmake", "--preset", preset, *options],
                ["cmake", "--build", str(folder), *(["--target", *targets] if targets else [])]]
    with locked(folder):
        for command in commands:
            status, output = run(command, folder / "test-build.log", timeout=None, cwd=ROOT)
            if status != 0:
                raise BuildFailed(output)
    return folder


def gtest_counts(report):
    suites = ElementTree.parse(report).getroot()
    ran = [case for case in suites.iter("testcase") if case.get("status") == "run"]
    failed = sum(1 for case in ran if case.find("failure") is not None)
    skipped = sum(1 for case in ran if case.get("result") == "skipped")
    return Outcome(len(ran) - failed - skipped, failed, skipped)


def count_unit_tests(results):
    """Cases of every program that CTest ran. A program that died, or is no GoogleTest program, counts as one case."""
    total = Outcome()
    for program in ElementTree.parse(results / "ctest.xml").getroot().iter("testcase"):
        report = results / f"test_{program.get('name')}.xml"
        broken = program.get("status") != "run"
        counts = gtest_counts(report) if report.is_file() else Outcome(passed=int(not broken))
        if broken and counts.failed == 0:
            counts += Outcome(failed=1)
        total += counts
    return total


def unit_tests(preset, selection):
    # All of release is built, because it is what users get; of the other presets only the tests.
    rooms = selection.rooms or (() if preset == "release" else rooms_with_tests())
    folder = build(preset, *(f"test_{room}" for room in rooms))
    environment = dict(os.environ, GTEST_BRIEF="1", UBSAN_OPTIONS="print_stacktrace=1",
                       ASAN_OPTIONS="detect_stack_use_after_return=1:strict_string_checks=1")
    if selection.gtest_filter:
        environment["GTEST_FILTER"] = selection.gtest_filter
    with tempfile.TemporaryDirectory() as results:
        environment["GTEST_OUTPUT"] = f"xml:{results}/"
        command = ["ctest", "--test-dir", str(folder), "--output-on-failure", "--parallel", JOBS,
                   "--timeout", str(TIMEOUT_SECONDS), "--output-junit", f"{results}/ctest.xml"]
        if selection.rooms:
            command += ["--tests-regex", f"^({'|'.join(selection.rooms)})$"]
        status, output = run(command, BUILD / "test-output" / f"{preset}.txt", env=environment)
        if not (Path(results) / "ctest.xml").is_file():
            return Outcome(failed=1, output=output)
        total = count_unit_tests(Path(results))
    if total.passed + total.failed + total.skipped == 0:
        return Outcome(failed=1, output="no test has such a name\n")
    if status != 0 and total.failed == 0:
        total += Outcome(failed=1)
    return total._replace(output=output)


def script_counts(status, output):
    """What a script says of itself: a closing "N passed, M failed[, K skipped]", unittest's summary, or its status."""
    closing = re.search(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\s*\Z", output, re.MULTILINE)
    summary = re.search(r"^Ran (\d+) tests? in .*\n\n(?:OK|FAILED)(?: \((.*)\))?\s*\Z", output, re.MULTILINE)
    if closing:
        counts = Outcome(int(closing[1]), int(closing[2]), int(closing[3] or 0))
    elif summary:
        details = dict(re.findall(r"(\w+)=(\d+)", summary[2] or ""))
        failed = int(details.get("failures", 0)) + int(details.get("errors", 0))
        skipped = int(details.get("skipped", 0))
        counts = Outcome(max(int(summary[1]) - failed - skipped, 0), failed, skipped)
    else:
        counts = Outcome(passed=int(status == 0))
    if status != 0 and counts.failed == 0:
        counts += Outcome(failed=1)
    return counts


def run_script(script, **variables):
    """Runs a script in a folder of its own that is removed afterwards."""
    interpreter = sys.executable if script.suffix == ".py" else "bash"
    environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", **variables)
    with tempfile.TemporaryDirectory() as folder:
        status, output = run([interpreter, str(script)], BUILD / "test-output" / f"{script.name}.txt",
                             cwd=folder, env=environment)
    name = script.relative_to(ROOT)
    return script_counts(status, output)._replace(output=f"--- {name}\n{output}" if status != 0 else "")


def scripts_in(folder, *patterns):
    """Scripts by name; one whose name starts with _ is a helper of the others."""
    found = {path for pattern in patterns for path in (ROOT / folder).glob(pattern)}
    return sorted(path for path in found if not path.name.startswith("_"))


def tools_tests(_):
    return sum((run_script(script) for script in scripts_in("tools", "*_test.py")), Outcome())


def end_to_end_tests(_):
    program = build("release", "perigee") / "src" / "perigee"
    scripts = scripts_in("tests/cli", "*.py", "*.sh") + scripts_in("tests/end_to_end", "*.py", "*.sh")
    return sum((run_script(script, PERIGEE=str(program), PERIGEE_TEST_DATA=str(ROOT / "tests" / "data"))
                for script in scripts), Outcome())


def pinned_tests(name, timeout):
    """tests/NAME in a Python environment with packages of its own, which the first run installs."""
    program = build("release", "perigee") / "src" / "perigee"
    runner, tests = ROOT / "tools/run_pinned_tests.py", ROOT / "tests" / name
    status, output = run([sys.executable, str(runner), str(tests), str(program), str(BUILD / name)],
                         BUILD / "test-output" / f"{name}.txt", timeout=timeout, cwd=ROOT)
    return script_counts(status, output)._replace(output=output)


def client_tests(_):
    """Other people's clients against the server."""
    return pinned_tests("clients", 2 * TIMEOUT_SECONDS)


def web_tests(_):
    """The page of the server in a browser. Without one, e.g. where nothing can be installed, its tests are skipped."""
    subprocess.run(["bash", str(ROOT / "tools/install_packages.sh"), "web"], stdin=subprocess.DEVNULL, check=False)
    return pinned_tests("web", TIMEOUT_SECONDS)


def fuzz_tests(_):
    folder = build("fuzz", "tests/fuzz/all")  # the targets and what they need, not the whole program
    status, output = run(["bash", str(ROOT / "tests/fuzz/run.sh"), str(folder), str(FUZZ_SECONDS)],
                         BUILD / "test-output" / "fuzz.txt", cwd=ROOT)
    return script_counts(status, output)._replace(output=output)


def format_check(_):
    files = sorted(str(path.relative_to(ROOT)) for folder in ("src", "tests", "bench")
                   for path in (ROOT / folder).rglob("*") if path.suffix in (".h", ".cpp"))
    status, output = run(["clang-format", "--dry-run", "-Werror", *files], BUILD / "test-output" / "format.txt",
                         cwd=ROOT)
    if status == 0:
        return Outcome(passed=1)
    return Outcome(failed=1, output=output + "clang-format -i FILES mends this\n")


PARTS = {
    "format": format_check,
    "tools": tools_tests,
    "release": lambda selection: unit_tests("release", selection),
    "e2e": end_to_end_tests,
    "clients": client_tests,
    "web": web_tests,
    "asan": lambda selection: unit_tests("asan", selection),
    "fuzz": fuzz_tests,
}
UNIT_PARTS = ("release", "asan")


def rooms_with_tests():
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/*.cpp")}
    return sorted(room for room in folders if (ROOT / "src" / room).is_dir())


def select(names):
    """Sorts the names of the command line into parts and a selection of unit tests."""
    rooms = rooms_with_tests()
    parts = [name for name in names if name in PARTS]
    chosen_rooms = tuple(name for name in names if name in rooms)
    filters = [name for name in names if name not in PARTS and name not in rooms]
    filters = [name if re.search(r"[.*?]", name) else f"{name}.*" for name in filters]
    selection = Selection(chosen_rooms, ":".join(filters))
    if selection != Selection() and not any(part in UNIT_PARTS for part in parts):
        parts.append("release")
    return [part for part in PARTS if part in parts] or list(PARTS), selection


def print_reasons(output):
    """Why a whole part was left out, if it was."""
    for line in output.splitlines():
        if line.startswith("skipped: "):
            print(line, flush=True)


def run_part(name, selection):
    print(f"{name:<10}", end="", flush=True)
    start = time.monotonic()
    try:
        outcome = PARTS[name](selection)
    except BuildFailed as error:
        outcome = Outcome(failed=1, output=f"{error}\nthe build failed\n")
    skipped = f", {outcome.skipped} skipped" if outcome.skipped else ""
    print(f"{outcome.passed} passed, {outcome.failed} failed{skipped}  ({time.monotonic() - start:.1f} s)", flush=True)
    if outcome.failed:
        print("\n".join(outcome.output.splitlines()[-SHOWN_LINES:]), flush=True)
    else:
        print_reasons(outcome.output)
    return outcome


def main():
    parser = argparse.ArgumentParser(usage="./test [NAME...]", formatter_class=argparse.RawDescriptionHelpFormatter,
                                     description=HELP.format(parts=", ".join(PARTS)))
    parser.add_argument("names", nargs="*", help=argparse.SUPPRESS, metavar="NAME")
    parts, selection = select(parser.parse_args().names)
    total = sum((run_part(part, selection) for part in parts), Outcome())
    print(f"{total.passed} passed, {total.failed} failed")
    return int(total.failed > 0)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
