"""What the end-to-end tests share: running the program, faults, comparing folders, and the count at the end.

Standard library only. The program is named by the variable PERIGEE; scripts run in an empty folder of their own.
"""

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PERIGEE = os.environ["PERIGEE"]
HERE = Path(__file__).resolve().parent
INDEX = "model.safetensors.index.json"
TIMEOUT = 120
AT_ONCE = 2  # runs side by side

_results = {"passed": 0, "failed": 0}


class Failed(AssertionError):
    """What a test case expected and did not find."""


def expect(condition, *details):
    if not condition:
        raise Failed("\n".join(str(detail) for detail in details))


@contextlib.contextmanager
def case(name):
    """Counts what happens inside as one test case; a failure is printed and does not stop the others."""
    try:
        yield
        _results["passed"] += 1
    except Exception as error:  # pylint: disable=broad-except
        _results["failed"] += 1
        where = traceback.extract_tb(error.__traceback__)[-1].lineno
        print(f"FAILED {name} (line {where}): {error}", flush=True)


def cases(function, items, names=str):
    """One case per item, some at once."""
    def run(item):
        with case(names(item)):
            function(item)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(run, items))


def close():
    """The closing line that ./test counts, and the exit status."""
    print(f"{_results['passed']} passed, {_results['failed']} failed")
    sys.exit(int(_results["failed"] > 0))


def skip(reason):
    print(f"skipped: {reason}\n0 passed, 0 failed")
    sys.exit(0)


def perigee(*arguments, rules=None, counts=None, **options):
    """Runs to the end. Rules are (call, path, at, action, argument) of fault_shim.c."""
    return subprocess.run([PERIGEE, *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT, check=False,
                          env=environment(rules, counts), **options)


def start(*arguments, rules=None):
    return subprocess.Popen([PERIGEE, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=environment(rules))


def succeed(*arguments, status=0, **options):
    result = perigee(*arguments, **options)
    expect(result.returncode == status, f"perigee {' '.join(map(str, arguments))}: exit status {result.returncode}",
           result.stderr)
    return result


def environment(rules=None, counts=None):
    variables = dict(os.environ)
    if rules:
        variables["LD_PRELOAD"] = shim()
        variables["FAULT_RULES"] = "\n".join("|".join(map(str, rule)) for rule in rules)
    if counts:
        variables["FAULT_COUNTS"] = str(counts)
    return variables


# Syncing takes most of the time of a tiny conversion and makes no difference to a process that dies.
UNSYNCED = ("fsync", "", 0, "skip", 0)


def shim():
    library = Path("fault_shim.so").resolve()
    if not library.exists():
        compiler = os.environ.get("CC", "cc")
        partial = library.with_suffix(f".{threading.get_ident()}")  # several threads may be first
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", partial, HERE / "fault_shim.c", "-ldl"], check=True)
        partial.rename(library)
    return str(library)


def has_sanitizer():
    return b"__asan_init" in Path(PERIGEE).read_bytes()


def count_calls(call, path, *arguments):
    """How many matching calls an undisturbed run makes."""
    counts = Path("counts.txt").resolve()
    succeed(*arguments, rules=[(call, path, 0, "delay", 0), UNSYNCED], counts=counts)
    return int(counts.read_text(encoding="ascii").split()[0])


def spread(count, at_most):
    """1..count, or at_most numbers of them spread evenly, both ends included."""
    if count <= at_most:
        return list(range(1, count + 1))
    return sorted({1 + round(i * (count - 1) / (at_most - 1)) for i in range(at_most)})


def tree(folder):
    """Every file below a folder with its SHA-256; .perigee, too."""
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(Path(folder).rglob("*")) if path.is_file()}


def expect_same(folder, wanted):
    found = tree(folder)
    names = sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
    expect(not names and not (Path(folder) / ".perigee").exists(), f"{folder} differs in {names}",
           f"journal left: {(Path(folder) / '.perigee').exists()}")


def expect_nothing_half_done(folder, wanted):
    """Whatever has a final name is whole; and if the index is there, so is everything else."""
    found = {name: hash for name, hash in tree(folder).items()
             if not name.startswith(".perigee") and not name.endswith(".partial")}
    wrong = sorted(name for name, hash in found.items() if wanted.get(name) != hash)
    expect(not wrong, f"{folder}: {wrong} look complete and are not")
    if INDEX in found:
        expect(found.keys() == wanted.keys(), f"{folder}: the index is there, but {wanted.keys() - found.keys()} not")


def expect_error(result, status, *words):
    """One sentence on standard error that has all the words."""
    lines = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    expect(result.returncode == status, f"exit status {result.returncode}, not {status}", result.stderr)
    expect(len(lines) == 1, "not one error", result.stderr)
    for word in words:
        expect(word in lines[0], f"no \"{word}\" in", lines[0])


def remove(folder):
    shutil.rmtree(folder, ignore_errors=True)


def fresh(folder):
    remove(folder)
    return Path(folder)


def shards(folder):
    return sorted(Path(folder).glob("*.safetensors"))
