#!/usr/bin/env python3
"""convert dies at any moment and goes on as if nothing had happened: SIGKILL at random times and in every phase.

After each death nothing under a final name is half done; after the resumption the folder is the undisturbed one,
byte for byte. What a power cut does is not shown here; that is what the order of syncs and renames is for.
"""

import random
import time
from pathlib import Path

from _support import (UNSYNCED, case, cases, close, count_calls, expect, expect_nothing_half_done, expect_same, fresh,
                      has_sanitizer, perigee, remove, skip, spread, start, succeed, tree)

RANDOM_KILLS = 200
EXACT_KILLS = 120
# Every operation takes a little longer, so that a run is long beside the time it takes to start one.
SLOWED = [("any", "", 0, "delay", 300), UNSYNCED]
OPTIONS = ["--io", "threads", "--jobs", "1"]


def resume(out, wanted, seed):
    """Goes on, now and then dying again."""
    rng = random.Random(seed)
    while rng.random() < 0.25:
        perigee("convert", "source", out, *OPTIONS, rules=[("any", "", rng.randint(1, 300), "kill", 0), UNSYNCED])
        expect_nothing_half_done(out, wanted)
    succeed("convert", "source", out, *OPTIONS, rules=[UNSYNCED])
    expect_same(out, wanted)
    remove(out)


def kill_after(seconds, out, wanted, seed):
    process = start("convert", "source", out, *OPTIONS, rules=SLOWED)
    time.sleep(seconds)
    process.kill()
    process.communicate()
    if Path(out).exists():
        expect_nothing_half_done(out, wanted)
    resume(out, wanted, seed)


def random_kills(wanted):
    begin = time.monotonic()
    succeed("convert", "source", "timed", *OPTIONS, rules=SLOWED)
    duration = time.monotonic() - begin
    rng = random.Random(20)
    moments = [(i, rng.uniform(0, 1.1 * duration)) for i in range(RANDOM_KILLS)]
    cases(lambda item: kill_after(item[1], f"random-{item[0]}", wanted, item[0]), moments,
          lambda item: f"killed after {item[1]:.4f} s")


def exact_kills(wanted):
    """At the n-th operation on a file of the output, before it happens; all of the finalisation is among them."""
    count = count_calls("any", "exact-", "convert", "source", "exact-0", *OPTIONS)

    def die(number):
        out = fresh(f"exact-{number}")
        result = perigee("convert", "source", out, *OPTIONS, rules=[("any", "exact-", number, "kill", 0), UNSYNCED])
        expect(result.returncode in (-9, 0), result.stderr)  # threads may need one operation less
        if out.exists():
            expect_nothing_half_done(out, wanted)
        resume(out, wanted, number)

    finalisation = range(max(1, count - 60), count + 1)
    cases(die, sorted({*spread(count, EXACT_KILLS), *finalisation}), lambda number: f"killed at operation {number}")


def main():
    if has_sanitizer():
        skip("a sanitizer does not go with LD_PRELOAD")
    succeed("synth", "source", "--preset", "tiny", "--layers", "3", "--experts", "3")
    succeed("convert", "source", "undisturbed", *OPTIONS)
    wanted = tree("undisturbed")
    with case("an undisturbed run leaves no journal"):
        expect_same("undisturbed", wanted)
    random_kills(wanted)
    exact_kills(wanted)
    close()


main()
