#!/usr/bin/env python3
"""Every read, write, sync, rename and reservation of convert fails in turn: it says so, leaves nothing half done
under a final name, and the next run goes on to the same bytes.
"""

import errno
import itertools

from _support import (UNSYNCED, case, cases, close, count_calls, expect, expect_error, expect_nothing_half_done,
                      expect_same, fresh, has_sanitizer, perigee, remove, shards, skip, spread, succeed, tree)

OPTIONS = ["--io", "threads", "--jobs", "1", "--io-depth", "1"]
NO_SPACE = "No space left on device; free some space and run the same command again, it resumes"
IO_ERROR = "Input/output error"

# operation, part of the path ("OUT" stands for the output folder), error, what the sentence says, how many places
FAULTS = [
    ("pread", "source/", errno.EIO, ("cannot read ", "source/", IO_ERROR), 24),
    ("pread", "OUT", errno.EIO, ("cannot read ", "OUT", IO_ERROR), 24),
    ("pwrite", "OUT", errno.EIO, ("cannot write ", "OUT", IO_ERROR), 30),
    ("pwrite", "OUT", errno.ENOSPC, ("cannot write ", "OUT", NO_SPACE), 30),
    ("pwrite", "OUT", errno.EDQUOT, ("cannot write ", "OUT", "Disk quota exceeded; free some space"), 5),
    ("fallocate", "OUT", errno.ENOSPC, ("cannot reserve ", "OUT", NO_SPACE), 10),
    ("fsync", "OUT", errno.EIO, ("cannot sync ", "OUT", IO_ERROR), 40),
    ("rename", "OUT", errno.EIO, ("cannot rename ", "OUT", IO_ERROR), 40),
    ("rename", "OUT", errno.ENOSPC, ("cannot rename ", "OUT", NO_SPACE), 5),
]


def convert(out, *rules):
    return perigee("convert", "source", out, *OPTIONS, rules=[*rules, UNSYNCED])


def resume(out, wanted):
    succeed("convert", "source", out, *OPTIONS, rules=[UNSYNCED])
    expect_same(out, wanted)
    remove(out)


def fault_at(place, wanted):
    (call, path, error, words, _), number = place
    out = fresh(f"out-{call}-{error}-{number}-{path.strip('/')}")
    result = convert(out, (call, path.replace("OUT", str(out)), number, "error", error))
    expect_error(result, 1, *(word.replace("OUT", str(out)) for word in words))
    if out.exists():
        expect_nothing_half_done(out, wanted)
        expect(not list(out.glob("**/*.safetensors.partial")) or call in ("fsync", "rename", "pread", "pwrite"),
               "a partial shard stayed although nothing was written")
    resume(out, wanted)


def all_faults(wanted):
    for fault in FAULTS:
        call, path, *_, at_most = fault
        count = count_calls(call, path.replace("OUT", "counted"), "convert", "source", fresh("counted"), *OPTIONS)
        with case(f"{call} on {path} is used at all"):
            expect(count > 0, count)
        cases(lambda place: fault_at(place, wanted), [(fault, number) for number in spread(count, at_most)],
              lambda place: f"{place[0][0]} on {place[0][1]}, number {place[1]}: {errno.errorcode[place[0][2]]}")


def flip_at(number, wanted, noticed):
    """A disk that returns one wrong bit of what was written must not get away with it."""
    out = fresh(f"flip-{number}")
    result = convert(out, ("pread", f"{out}/.perigee/model-", number, "flip", 0))
    if result.returncode == 0:  # the bit was in the padding of an aligned read, which nobody looks at
        return expect_same(out, wanted)
    expect_error(result, 1, "model-0", "run the command again")
    expect_nothing_half_done(out, wanted)
    expect(not list(out.glob(".perigee/*.safetensors.partial")), "the damaged file is still there")
    resume(out, wanted)
    return noticed.append(number)


def flips(wanted):
    count = count_calls("pread", ".safetensors.partial", "convert", "source", fresh("counted"), *OPTIONS)
    noticed = []
    cases(lambda number: flip_at(number, wanted, noticed), spread(count, 60),
          lambda number: f"flipped bit in read-back {number}")
    with case("most flipped bits matter"):
        expect(len(noticed) > 30, noticed)


def short_transfers(wanted):
    """The kernel may transfer less than asked for; that is no error."""
    def cut(item):
        call, length = item
        out = fresh(f"short-{call}-{length}")
        result = convert(out, (call, "", 0, "short", length))
        expect(result.returncode == 0, result.stderr)
        expect_same(out, wanted)
    cases(cut, itertools.product(("pread", "pwrite"), (4096, 8192, 65536)), lambda item: f"short transfers: {item}")


def damaged_between_runs(wanted):
    """A finished shard that changed after it was written is converted again; a resumption believes no name."""
    def damage(item):
        name, change, options = item
        out = fresh(f"damaged-{name}")
        convert(out, ("rename", "SHA256SUMS", 1, "error", errno.EIO))
        change(shards(out)[1])
        succeed("convert", "source", out, *OPTIONS, *options)
        expect_same(out, wanted)

    def truncate(path):
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size - 1)

    def zero(path):
        with path.open("r+b") as file:
            file.seek(path.stat().st_size // 2)
            file.write(bytes(4096))

    def flip_last_bit(path):
        with path.open("r+b") as file:
            file.seek(-1, 2)
            last = file.read(1)[0]
            file.seek(-1, 2)
            file.write(bytes([last ^ 1]))

    full = ["--resume-check", "full"]
    cases(damage, [("truncated", truncate, []), ("zeroed", zero, []), ("flipped", flip_last_bit, full),
                   ("removed", lambda path: path.unlink(), [])], lambda item: f"a finished shard is {item[0]}")

    with case("a damaged record of the journal is ignored"):
        out = fresh("damaged-record")
        convert(out, ("rename", "SHA256SUMS", 1, "error", errno.EIO))
        records = sorted(out.glob(".perigee/*.safetensors.json"))
        records[0].write_text("{}", encoding="ascii")
        records[1].write_bytes(b"\xff" * 100)
        resume(out, wanted)


def main():
    if has_sanitizer():
        skip("a sanitizer does not go with LD_PRELOAD")
    succeed("synth", "source", "--preset", "tiny", "--layers", "2", "--experts", "2")
    succeed("convert", "source", "undisturbed", *OPTIONS)
    wanted = tree("undisturbed")
    all_faults(wanted)
    flips(wanted)
    short_transfers(wanted)
    damaged_between_runs(wanted)
    close()


main()
