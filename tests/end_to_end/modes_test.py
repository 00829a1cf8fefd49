#!/usr/bin/env python3
"""Ways to run convert that take more than one process or more than one moment: while the download runs, deleting the
source, several ranks, parts of a checkpoint, starting anew, and a source that changes meanwhile.
"""

import json
import os
import shutil
import time
from pathlib import Path

from _support import (INDEX, UNSYNCED, case, cases, close, expect, expect_error, expect_nothing_half_done, expect_same,
                      fresh, has_sanitizer, perigee, shards, start, succeed, tree)

SIZES = ["--preset", "tiny", "--layers", "3", "--experts", "3"]
SHARDS = 6
POLLS = 0.7  # seconds in which a waiting converter has looked at its folder again


def shard(number):
    return f"model-{number:05}-of-{SHARDS:06}.safetensors"


def copy_without_shards(folder):
    shutil.copytree("source", fresh(folder), ignore=shutil.ignore_patterns("*.safetensors"))
    return Path(folder)


def wait_for(condition, what, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        expect(time.monotonic() < end, f"waited in vain for {what}")
        time.sleep(0.02)


def finish(process, status=0):
    output, errors = process.communicate(timeout=60)
    expect(process.returncode == status, f"exit status {process.returncode}, not {status}", errors)
    return output


# While a download runs

def arrive_truncated(folder, number):
    data = (Path("source") / shard(number)).read_bytes()
    (folder / shard(number)).write_bytes(data[:len(data) // 2])
    return lambda: (folder / shard(number)).write_bytes(data)


def arrive_marked(mark):
    def arrive(folder, number):
        beside = folder / (shard(number) + mark)
        beside.write_bytes(b"")
        data = bytearray((Path("source") / shard(number)).read_bytes())
        data[len(data) // 2:] = bytes(len(data) - len(data) // 2)  # full size already, as aria2 makes it
        (folder / shard(number)).write_bytes(data)

        def complete():
            shutil.copyfile(Path("source") / shard(number), folder / shard(number))
            beside.unlink()
        return complete
    return arrive


def arrive_empty(folder, number):
    (folder / shard(number)).write_bytes(b"")
    return lambda: shutil.copyfile(Path("source") / shard(number), folder / shard(number))


def follow(wanted):
    folder, out = copy_without_shards("download/source"), fresh("followed")
    ways = [arrive_truncated, arrive_marked(".aria2"), arrive_marked(".incomplete"), arrive_marked(".part"),
            arrive_marked(".tmp"), arrive_empty]
    process = start("convert", folder, out, "--follow")
    with case("--follow takes each shard when it is complete, not earlier"):
        for number, arrive in zip((3, 1, 2, 6, 5, 4), ways):
            complete = arrive(folder, number)
            time.sleep(POLLS)
            expect(not (out / shard(number)).exists(), f"{shard(number)} was taken while incomplete")
            complete()
        finish(process)
        expect_same(out, wanted)
    if process.poll() is None:
        process.kill()
    with case("--follow gives up after --wait, names what is missing, and goes on later"):
        (folder / shard(4)).unlink()
        out = fresh("given-up")
        result = perigee("convert", folder, out, "--follow", "--wait", "1")
        expect_error(result, 1, shard(4), "download")
        expect(len(shards(out)) == SHARDS - 1, shards(out))
        expect_nothing_half_done(out, wanted)
        shutil.copyfile(Path("source") / shard(4), folder / shard(4))
        succeed("convert", folder, out, "--follow")
        expect_same(out, wanted)


# Deleting the source

def delete_source(wanted):
    with case("--delete-source leaves everything but the shards"):
        folder, out = Path("deleted") / "source", fresh("from-deleted")
        shutil.copytree("source", fresh(folder))
        others = {name: hash for name, hash in tree(folder).items() if not name.endswith(".safetensors")}
        succeed("convert", folder, out, "--delete-source")
        expect(tree(folder) == others, tree(folder).keys())
        expect_same(out, wanted)
    with case("--delete-source again has nothing to do"):
        result = succeed("convert", folder, out, "--delete-source")
        expect("nothing to do" in result.stdout, result.stdout)
    with case("a shard whose other half of an expert is elsewhere is not deleted"):
        folder, out = Path("deleted") / "split", fresh("from-split")
        succeed("synth", fresh(folder), *SIZES, "--split-pairs")
        succeed("convert", folder, fresh("split-wanted"))
        succeed("convert", folder, out, "--delete-source")
        expect_same(out, tree("split-wanted"))
    if not has_sanitizer():
        cases(lambda number: delete_and_die(number, wanted), range(1, SHARDS + 1),
              lambda number: f"--delete-source, killed when shard {number} gets its name")


def delete_and_die(number, wanted):
    """A source shard goes only after its output has its name; what was deleted needs no second conversion."""
    folder, out = Path(f"dying-{number}") / "source", fresh(f"from-dying-{number}")
    shutil.copytree("source", fresh(folder))
    result = perigee("convert", folder, out, "--delete-source", "--io", "threads",
                     rules=[("rename", f"{out}/{shard(number)}", 1, "kill", 0), UNSYNCED])
    expect(result.returncode == -9, result.stderr)
    left = {path.name for path in shards(folder)}
    expect(left == {shard(n) for n in range(number, SHARDS + 1)}, left)
    expect_nothing_half_done(out, wanted)
    succeed("convert", folder, out, "--delete-source")
    expect(not shards(folder), shards(folder))
    expect_same(out, wanted)


# Several ranks

def ranks(wanted):
    def share(size):
        out = fresh(f"shared-by-{size}")
        processes = [start("convert", "source", out, "--world-size", size, "--rank", rank, "--wait", "60")
                     for rank in range(size)]
        for process in processes:
            finish(process)
        expect_same(out, wanted)
    cases(share, (2, 3, 8), lambda size: f"{size} ranks make the same bytes as one")
    with case("rank 0 names the rank and the shard that never came"):
        out = fresh("rank-2-missing")
        finish(start("convert", "source", out, "--world-size", 3, "--rank", 1))
        result = perigee("convert", "source", out, "--world-size", 3, "--wait", 1)
        expect_error(result, 1, shard(3), "rank 2", "start that rank again")
        expect_nothing_half_done(out, wanted)
    with case("another rank with other options is refused and changes nothing"):
        before = tree(out)
        result = perigee("convert", "source", out, "--world-size", 3, "--rank", 2, "--method", "requant")
        expect_error(result, 1, "other options")
        expect(tree(out).items() - before.items() <= {(".perigee/rank-2.lock", EMPTY)}, tree(out))
    with case("the missing rank and rank 0 finish it"):
        succeed("convert", "source", out, "--world-size", 3, "--rank", 2)
        succeed("convert", "source", out, "--world-size", 3)
        expect_same(out, wanted)
    if not has_sanitizer():
        cases(lambda step: other_world_sizes(step, wanted), range(4),
              lambda step: f"two processes that share the work differently, the second {step * 0.3:.1f} s later")
    with case("one process finishes what several began"):
        out = fresh("begun-by-rank-1")
        succeed("convert", "source", out, "--world-size", 2, "--rank", 1)
        succeed("convert", "source", out)
        expect_same(out, wanted)


def other_world_sizes(step, wanted):
    """Both would write shard 2: one of them must say so, and nothing half done may ever have the final name."""
    out = fresh(f"world-sizes-{step}")
    slow = [("any", f"{out}/.perigee/{shard(2)}", 0, "delay", 100000), UNSYNCED]
    processes = [start("convert", "source", out, "--io", "threads", "--jobs", "1", rules=slow)]
    time.sleep(0.2 + 0.3 * step)
    processes.append(start("convert", "source", out, "--io", "threads", "--jobs", "1", "--world-size", 2, "--rank", 1,
                           rules=slow))
    while any(process.poll() is None for process in processes):
        final = out / shard(2)
        expect(not final.exists() or tree(out)[shard(2)] == wanted[shard(2)], f"{final} is half done")
        time.sleep(0.05)
    errors = [process.communicate()[1] for process in processes]
    expect(processes[0].returncode == 0, *errors)
    expect(processes[1].returncode == 0 or "at work" in errors[1], *errors)
    expect_same(out, wanted)


EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"  # SHA-256 of nothing


# Parts of a checkpoint

def parts(wanted):
    def part(item):
        options, numbers = item
        out = fresh("part" + "".join(options))
        result = succeed("convert", "source", out, *options)
        expect("PARTIAL" in result.stdout, result.stdout)
        expect([path.name for path in shards(out)] == [shard(n) for n in numbers], shards(out))
        expect(all(tree(out)[shard(n)] == wanted[shard(n)] for n in numbers), "a shard differs from that of the whole")
        index = json.loads((out / INDEX).read_text(encoding="utf-8"))["weight_map"]
        whole = json.loads((Path("undisturbed") / INDEX).read_text(encoding="utf-8"))["weight_map"]
        files = {shard(n) for n in numbers}
        expect(index == {name: file for name, file in whole.items() if file in files}, "the index is not of these")
        expect(json.loads((out / "conversion_report.json").read_text(encoding="utf-8"))["partial"], "not partial")
        verified = succeed("verify", "source", out)
        expect(f"PARTIAL: {SHARDS - len(numbers)} of {SHARDS}" in verified.stdout, verified.stdout)
        again = succeed("convert", "source", out, *options)
        expect("nothing to do" in again.stdout, again.stdout)
    cases(part, [(["--shards", "2"], [2]), (["--shards", "1-3,6"], [1, 2, 3, 6]), (["--layers", "1"], [2]),
                 (["--layers", "1-2"], [2, 3]), (["--layers", "0-1", "--shards", "2-5"], [2])],
          lambda item: " ".join(item[0]))
    with case("all shards named one by one is a whole conversion"):
        out = fresh("all-named")
        succeed("convert", "source", out, "--shards", "1-3,4,5,6")
        expect_same(out, wanted)


# A finished checkpoint that is not whole any more

def finished_and_damaged(wanted):
    def damage(item):
        name, change = item
        out = fresh(f"finished-{name}")
        succeed("convert", "source", out)
        change(out / shard(2))
        result = perigee("convert", "source", out)
        expect(result.returncode != 0 or tree(out) == wanted, "it says that all is well", result.stdout)
        if result.returncode != 0:
            expect_error(result, 1, shard(2))
    cases(damage, [("lost", Path.unlink), ("longer", append_byte), ("empty", lambda path: path.write_bytes(b""))],
          lambda item: f"a shard of a finished conversion is {item[0]}")


# Starting anew

def overwrite(wanted):
    with case("--overwrite replaces a finished conversion"):
        out = fresh("overwritten")
        succeed("convert", "source", out, "--method", "requant", status=3)
        succeed("convert", "source", out, "--overwrite")
        expect_same(out, wanted)
    with case("--overwrite replaces an unfinished conversion with other options"):
        out = fresh("overwritten-unfinished")
        succeed("convert", "source", out, "--layout", "compressed-tensors", "--world-size", 2, "--rank", 1)
        succeed("convert", "source", out, "--overwrite")
        expect_same(out, wanted)
    with case("--overwrite into an empty or missing folder is an ordinary run"):
        for out in (fresh("overwritten-missing"), fresh("overwritten-empty")):
            if "empty" in str(out):
                out.mkdir()
            succeed("convert", "source", out, "--overwrite")
            expect_same(out, wanted)
    with case("--overwrite refuses a checkpoint that somebody else made"):
        before = tree("source")
        result = perigee("convert", "undisturbed", "source", "--layout", "compressed-tensors", "--overwrite")
        expect_error(result, 1, "source was not made by perigee")
        expect(tree("source") == before, "it was changed")


# A source that changes meanwhile

def append_byte(path):
    with path.open("ab") as file:
        file.write(b"\0")


def change_byte(path):
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)[0]
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last ^ 1]))


def replace(path):
    beside = path.with_suffix(".new")
    shutil.copyfile(path, beside)
    change_byte(beside)
    beside.rename(path)


def changes(wanted):
    if has_sanitizer():
        return

    def change_while_read(item):
        name, change = item
        folder, out = Path(f"changing-{name}") / "source", fresh(f"from-changing-{name}")
        shutil.copytree("source", fresh(folder))
        process = start("convert", folder, out, "--io", "threads", "--jobs", "1", "--io-depth", "1",
                        rules=[("pwrite", shard(2) + ".partial", 0, "delay", 300000), UNSYNCED])
        wait_for(lambda: (out / ".perigee" / (shard(2) + ".partial")).exists(), "the second shard")
        time.sleep(0.1)
        change(folder / shard(2))
        _, errors = process.communicate(timeout=60)
        expect(process.returncode == 1 and f"source/{shard(2)}" in errors, process.returncode, errors)
        expect([path.name for path in shards(out)] == [shard(1)], shards(out))
        expect(not list(out.glob("**/*.partial")), "the output of a changed shard is still there")
        shutil.copyfile(Path("source") / shard(2), folder / shard(2))
        succeed("convert", folder, out)
        expect_same(out, wanted)
    cases(change_while_read, [("longer", append_byte), ("other bytes", change_byte), ("touched", Path.touch),
                              ("replaced", replace), ("removed", Path.unlink)],
          lambda item: f"a source shard that changes while it is read: {item[0]}")

    with case("a source shard that changed between two runs is converted again"):
        folder, out = Path("changed-between") / "source", fresh("from-changed-between")
        shutil.copytree("source", fresh(folder))
        succeed("convert", folder, out, "--world-size", 2, "--rank", 1)
        other = Path("other-seed")
        succeed("synth", other, *SIZES, "--seed", 2)
        shutil.copyfile(other / shard(2), folder / shard(2))
        result = succeed("convert", folder, out)
        expect(f"{shard(2)} changed since it was converted" in result.stderr, result.stderr)
        succeed("verify", folder, out)


def main():
    succeed("synth", "source", *SIZES)
    succeed("convert", "source", "undisturbed")
    wanted = tree("undisturbed")
    original = tree("source")
    follow(wanted)
    delete_source(wanted)
    ranks(wanted)
    parts(wanted)
    finished_and_damaged(wanted)
    overwrite(wanted)
    changes(wanted)
    with case("nothing of all this touched the source"):
        expect(tree("source") == original, "source was changed")
    close()


main()
