#!/usr/bin/env python3
"""pack dies at any moment, meets every error of the disk, and goes on to the same bytes; unpack gives back the source.

As kill_test.py and fault_test.py for convert. Two folders of records are used throughout, so that a part of a layer
can be there and the other not.
"""

import errno
import shutil
from pathlib import Path

from _kills import Work, exact_kills, random_kills, resume
from _support import (UNSYNCED, case, cases, close, expect, expect_error, expect_same, fresh, has_sanitizer, perigee,
                      remove, skip, spread, succeed, tree)
from _support import expect_nothing_half_done as support_nothing_half_done

RANDOM_KILLS = 40
EXACT_KILLS = 60
UNPACK_KILLS = 30
FINISH = 30  # operations at the end
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


def prove(out, wanted):
    found = contents(out)
    names = sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
    expect(not names, f"{out} differs in {names}")
    succeed("verify", "source", f"{out}/store", status=LOSSY)


def packing(wanted):
    return Work(command=command, nothing_half_done=lambda out: expect_nothing_half_done(out, wanted),
                prove=lambda out: prove(out, wanted), seed=21, status=LOSSY)


def fault_at(place, wanted):
    (call, path, error, words, _), number = place
    out = fresh(f"out-{call}-{error}-{number}-{path.strip('/')}")
    result = perigee(*command(out), rules=[(call, path.replace("OUT", str(out)), number, "error", error), UNSYNCED])
    expect_error(result, 1, *(word.replace("OUT", str(out)) for word in words))
    if out.exists():
        expect_nothing_half_done(out, wanted)
    resume(packing(wanted), out)


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
                resume(packing(wanted), out)
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


def unpacking(original):
    """Shards that a dead run gave back are not written again, and no folder looks like a checkpoint too early."""
    exact = [option for option in OPTIONS if option not in ("--head", "fp8")]
    succeed("pack", "source", "exact", *exact)
    options = ["--io", "threads", "--jobs", "1"]
    work = Work(command=lambda out: ["unpack", "exact", out, *options],
                nothing_half_done=lambda out: support_nothing_half_done(out, original),
                prove=lambda out: expect_same(out, original), seed=22)
    with case("unpack goes on where it was killed"):
        perigee(*work.command("halfway"), rules=[("rename", "model-00002", 1, "kill", 0), UNSYNCED])
        first = next(Path("halfway").glob("model-00001-*"))
        written = first.stat().st_mtime_ns
        result = succeed(*work.command("halfway"), rules=[UNSYNCED])
        expect("of them by an earlier run" in result.stdout, result.stdout)
        expect(first.stat().st_mtime_ns == written, "the first shard was written again")
        expect_same("halfway", original)
    with case("a shard that changed since is given back again"):
        perigee(*work.command("changed"), rules=[("rename", "model-00003", 1, "kill", 0), UNSYNCED])
        shard = next(Path("changed").glob("model-00001-*"))
        shard.write_bytes(shard.read_bytes()[:-1] + b"?")
        result = succeed(*work.command("changed"), rules=[UNSYNCED])
        expect("unpacking it again" in result.stderr, result.stderr)
        expect_same("changed", original)
    with case("another store's unfinished folder is refused"):
        perigee(*work.command("begun"), rules=[("rename", "model-00002", 1, "kill", 0), UNSYNCED])
        succeed("synth", "other", "--preset", "tiny", "--layers", "2", "--experts", "5")
        succeed("pack", "other", "another", *exact)
        expect_error(perigee("unpack", "another", "begun"), 1, "begun", "unfinished unpack")
    random_kills(work, UNPACK_KILLS)
    exact_kills(work, UNPACK_KILLS, FINISH)


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
    random_kills(packing(wanted), RANDOM_KILLS)
    exact_kills(packing(wanted), EXACT_KILLS, FINISH)
    unpacking(tree("source"))
    close()


main()
