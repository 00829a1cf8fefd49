#!/usr/bin/env python3
"""A disk that is really full: a small tmpfs, which also has no direct I/O to offer. Needs root; says so if not."""

import contextlib
import shutil
import subprocess
import sys
from pathlib import Path

from _support import (PERIGEE, case, close, expect, expect_error, expect_nothing_half_done, expect_same, perigee, skip,
                      succeed, tree)

MIB = 1 << 20


def mount(*arguments):
    return subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0


@contextlib.contextmanager
def small_disk(size):
    folder = Path("disk")
    folder.mkdir(exist_ok=True)
    if not mount("-t", "tmpfs", "-o", f"size={size}", "perigee-test", str(folder)):
        skip("a file system cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=False)


def enlarge(disk, size):
    if not mount("-o", f"remount,size={size}", str(disk)):
        print("remount failed", file=sys.stderr)


def packing():
    original = tree("source")
    with small_disk(MIB) as disk:
        with case("pack: too little space is refused before anything is written"):
            result = perigee("pack", "source", disk / "store")
            expect_error(result, 1, "disk/store has ", " free, but ", "still to be written there", "--stripe")
            expect(not list(disk.glob("store/*.bin")), "something was written")
        # With --delete-source space comes free on the way, so the disk runs full during the work.
        shutil.copytree("source", "given")
        for attempt in ("pack: a disk that runs full during the work", "pack: a disk that is still full"):
            with case(attempt):
                result = perigee("pack", "given", disk / "store", "--delete-source")
                expect_error(result, 1, "No space left on device", "it resumes")
                expect(not (disk / "store" / "experts.index").exists(), "it looks complete")
        with case("pack: after enlarging the disk the same command completes"):
            enlarge(disk, 100 * MIB)
            succeed("pack", "given", disk / "store", "--delete-source")
            succeed("verify", "source", disk / "store")
            succeed("unpack", disk / "store", "back")
            expect(tree("back") == original, "the source did not come back")


def main():
    succeed("synth", "source", "--preset", "tiny")
    succeed("convert", "source", "undisturbed")
    wanted = tree("undisturbed")
    with small_disk(MIB) as disk:
        with case("too little space is refused before anything is written"):
            result = perigee("convert", "source", disk / "out")
            expect_error(result, 1, "disk/out has ", " free, but the 7 shards still to write need ", "free some space")
            expect(not list(disk.glob("out/*.safetensors")), "something was written")
        # With --follow the need is not known in advance, so the disk runs full during the work.
        for attempt in ("a disk that runs full during the work", "a disk that is still full"):
            with case(attempt):
                result = perigee("convert", "source", disk / "followed", "--follow", "--io", "threads")
                expect_error(result, 1, "disk/followed/.perigee/model-", "No space left on device", "it resumes")
                expect_nothing_half_done(disk / "followed", wanted)
        with case("after enlarging the disk the same command completes"):
            enlarge(disk, 100 * MIB)
            succeed("convert", "source", disk / "followed", "--follow", "--io", "threads")
            expect_same(disk / "followed", wanted)
        with case("without direct I/O, with io_uring if the kernel has it"):
            succeed("convert", "source", disk / "out")
            expect_same(disk / "out", wanted)
    with small_disk("2200k") as disk, case("a disk that has room for the shards, but not for the rest"):
        failures = 0
        for size in range(2000, 2300, 16):
            enlarge(disk, f"{size}k")
            result = perigee("convert", "source", disk / "out", "--follow")
            expect_nothing_half_done(disk / "out", wanted)
            if result.returncode == 0:
                break
            expect_error(result, 1, "No space left on device")
            failures += 1
        expect(failures > 2, f"only {failures} runs met a full disk", PERIGEE)
        expect_same(disk / "out", wanted)
    packing()
    close()


main()
