#!/usr/bin/env python3
"""pack dies at any moment, meets every error of the disk, and goes on to the same bytes; unpack gives back the source.

As kill_test.py and fault_test.py for convert. Two folders of records are used throughout, so that a part of a layer
can be there and the other not.
"""

import errno
import random
import shutil
import time
from pathlib import Path

from _support import (UNSYNCED, case, cases, close, expect, expect_error, fresh, has_sanitizer, perigee,
                      remove, skip, spread, start, succeed, tree)

RANDOM_KILLS = 40
EXACT_KILLS = 60
SLOWED = [("any", "", 0, "delay", 300), UNSYNCED]
OPTIONS = ["--io", "threads", "--jobs", "1", "--head", "fp8"]
LOSSY = 3
INDEX = "experts.index"

# operation, part of the path, error, what the sentence says, how many places
FAULTS = [
    ("pread", "source/", errno.EIO, ("cannot read ", "source/"), 12),
    ("pread", "OUT", errno.EIO, ("cannot read ", "OUT"), 12),
    ("pwrite", "OUT", errno.EIO, ("cannot write ", "OUT"), 16),
    ("pwrite", "OUT", errno.ENOSPC, ("cannot write ", "OUT", "No space left on device"), 16),
    ("fallocate", "OUT", errno.ENOSPC, ("cannot reserve ", "OUT", "No space left on device"), 8),
    ("fsync", "OUT", errno.EIO, ("cannot sync ", "OUT"), 20),
    ("rename", "OUT", errno.EIO, ("cannot rename ", "OUT"), 20),
]


def command(out):
    return ["pack", "source", f"{out}/store", "--stripe", f"{out}/a=1,{out}/b=2", *OPTIONS]


def contents(out):
    """Everything but the experts' index, which names the folders absolutely; that one is checked by verify."""
    return {name: digest for name, digest in tree(out).items() if not name.endswith(INDEX)}


def expect_nothing_half_done(out, wanted):
    found = {name: digest for name, digest in contents(out).items()
             if "/.perigee/" not in name and not name.endswith(".partial")}
    wrong = sorted(name for name, digest in found.items() if wanted.get(name) != digest)
    expect(not wrong, f"{out}: {wrong} look complete and are not")
    if (Path(out) / "store" / INDEX).exists():
        expect(found.keys() == wanted.keys(), f"{out}: the index is there, but {wanted.keys() - found.keys()} not")


def resume(out, wanted, seed=None):
    """Goes on, now and then dying again, and proves the result."""
    rng = random.Random(seed)
    while seed is not None and rng.random() < 0.25:
        perigee(*command(out), rules=[("any", "", rng.randint(1, 300), "kill", 0), UNSYNCED])
        expect_nothing_half_done(out, wanted)
    succeed(*command(out), status=LOSSY, rules=[UNSYNCED])
    found = contents(out)
    names = sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
    expect(not names, f"{out} differs in {names}")
    succeed("verify", "source", f"{out}/store", status=LOSSY)
    remove(out)


def kill_after(seconds, out, wanted, seed):
    process = start(*command(out), rules=SLOWED)
    time.sleep(seconds)
    process.kill()
    process.communicate()
    if Path(out).exists():
        expect_nothing_half_done(out, wanted)
    resume(out, wanted, seed)


def random_kills(wanted):
    begin = time.monotonic()
    succeed(*command("timed"), status=LOSSY, rules=SLOWED)
    duration = time.monotonic() - begin
    rng = random.Random(21)
    moments = [(i, rng.uniform(0, 1.1 * duration)) for i in range(RANDOM_KILLS)]
    cases(lambda item: kill_after(item[1], f"random-{item[0]}", wanted, item[0]), moments,
          lambda item: f"killed after {item[1]:.4f} s")


def exact_kills(wanted):
    succeed(*command(fresh("exact-0")), status=LOSSY, rules=[("any", "exact-", 0, "delay", 0), UNSYNCED],
            counts=Path("kills.txt").resolve())
    count = int(Path("kills.txt").read_text(encoding="ascii").split()[0])

    def die(number):
        out = fresh(f"exact-{number}")
        result = perigee(*command(out), rules=[("any", "exact-", number, "kill", 0), UNSYNCED])
        expect(result.returncode in (-9, LOSSY), result.stderr)
        if out.exists():
            expect_nothing_half_done(out, wanted)
        resume(out, wanted, number)

    finish = range(max(1, count - 30), count + 1)
    cases(die, sorted({*spread(count, EXACT_KILLS), *finish}), lambda number: f"killed at operation {number}")


def fault_at(place, wanted):
    (call, path, error, words, _), number = place
    out = fresh(f"out-{call}-{error}-{number}-{path.strip('/')}")
    result = perigee(*command(out), rules=[(call, path.replace("OUT", str(out)), number, "error", error), UNSYNCED])
    expect_error(result, 1, *(word.replace("OUT", str(out)) for word in words))
    if out.exists():
        expect_nothing_half_done(out, wanted)
    resume(out, wanted)


def all_faults(wanted):
    for fault in FAULTS:
        call, path, *_, at_most = fault
        counts = Path("faults.txt").resolve()
        succeed(*command(fresh("counted")), status=LOSSY, counts=counts,
                rules=[(call, path.replace("OUT", "counted"), 0, "delay", 0), UNSYNCED])
        count = int(counts.read_text(encoding="ascii").split()[0])
        with case(f"{call} on {path} is used at all"):
            expect(count > 0, count)
        cases(lambda place: fault_at(place, wanted), [(fault, number) for number in spread(count, at_most)],
              lambda place: f"{place[0][0]} on {place[0][1]}, number {place[1]}: {errno.errorcode[place[0][2]]}")


def flips(wanted):
    """A disk that returns one wrong bit of what was written must not get away with it."""
    for kind in ("experts-", "trunk-"):
        noticed = 0
        for number in range(1, 9):
            out = fresh(f"flip-{kind}{number}")
            with case(f"bit flip {number} in {kind}"):
                result = perigee(*command(out), rules=[("pread", kind, number, "flip", 0), UNSYNCED])
                if result.returncode == 1:
                    expect_error(result, 1, kind, "run the command again")
                    noticed += 1
                expect_nothing_half_done(out, wanted)
                resume(out, wanted)
        with case(f"flips in {kind} are noticed"):
            expect(noticed > 0, noticed)


def deletion(original):
    """With --delete-source a death never costs a byte that is not in the store."""
    exact = [option for option in OPTIONS if option not in ("--head", "fp8")]
    arguments = ["pack", "gone", "kept", *exact, "--delete-source"]
    shutil.copytree("source", "gone")
    succeed(*arguments, rules=[("any", "kept", 0, "delay", 0), UNSYNCED], counts=Path("gone.txt").resolve())
    count = int(Path("gone.txt").read_text(encoding="ascii").split()[0])
    for number in spread(count, 30):
        for folder in ("gone", "kept", "back"):
            remove(folder)
        shutil.copytree("source", "gone")
        with case(f"--delete-source, killed at operation {number}"):
            perigee(*arguments, rules=[("any", "kept", number, "kill", 0), UNSYNCED])
            succeed(*arguments, rules=[UNSYNCED])
            expect(not list(Path("gone").glob("*.safetensors")), "shards stayed")
            succeed("unpack", "kept", "back", rules=[UNSYNCED])
            expect(tree("back") == original, "the source did not come back")


def main():
    if has_sanitizer():
        skip("a sanitizer does not go with LD_PRELOAD")
    succeed("synth", "source", "--preset", "tiny", "--layers", "3", "--experts", "5")
    succeed(*command("undisturbed"), status=LOSSY)
    wanted = contents("undisturbed")
    with case("an undisturbed run leaves no journal"):
        expect(not list(Path("undisturbed").rglob(".perigee")), "a journal was left")
    all_faults(wanted)
    flips(wanted)
    deletion(tree("source"))
    random_kills(wanted)
    exact_kills(wanted)
    close()


main()
