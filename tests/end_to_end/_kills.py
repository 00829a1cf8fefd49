"""Death at any moment: one long piece of work is killed at random times and at chosen operations, and goes on.

A test says what the work is (Work); the loops that kill it, look at what is left and let it go on are here.
"""

import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from _support import UNSYNCED, cases, expect, fresh, perigee, remove, spread, start, succeed

# Every operation takes a little longer, so that a run is long beside the time it takes to start one.
SLOWED = [("any", "", 0, "delay", 300), UNSYNCED]


@dataclass
class Work:
    """A command that writes the folder `out`."""
    command: Callable[[str], list]  # of out
    nothing_half_done: Callable[[str], None]  # looks at what a dead run left
    prove: Callable[[str], None]  # that out is what an undisturbed run writes
    seed: int
    status: int = 0  # of a run to the end


def resume(work, out, seed=None):
    """Goes on, now and then dying again, and proves the result."""
    rng = random.Random(seed)
    while seed is not None and rng.random() < 0.25:
        perigee(*work.command(out), rules=[("any", "", rng.randint(1, 300), "kill", 0), UNSYNCED])
        work.nothing_half_done(out)
    succeed(*work.command(out), status=work.status, rules=[UNSYNCED])
    work.prove(out)
    remove(out)


def _kill_after(work, seconds, out, seed):
    process = start(*work.command(out), rules=SLOWED)
    time.sleep(seconds)
    process.kill()
    process.communicate()
    if Path(out).exists():
        work.nothing_half_done(out)
    resume(work, out, seed)


def random_kills(work, times):
    begin = time.monotonic()
    succeed(*work.command(fresh("timed")), status=work.status, rules=SLOWED)
    duration = time.monotonic() - begin
    rng = random.Random(work.seed)
    moments = [(i, rng.uniform(0, 1.1 * duration)) for i in range(times)]
    cases(lambda item: _kill_after(work, item[1], f"random-{item[0]}", item[0]), moments,
          lambda item: f"{work.command('OUT')[0]} killed after {item[1]:.4f} s")


def exact_kills(work, times, last):
    """At the n-th operation on a file of the output, before it happens; the `last` ones are all among them."""
    counts = Path("kills.txt").resolve()
    succeed(*work.command(fresh("exact-0")), status=work.status, counts=counts,
            rules=[("any", "exact-", 0, "delay", 0), UNSYNCED])
    count = int(counts.read_text(encoding="ascii").split()[0])

    def die(number):
        out = fresh(f"exact-{number}")
        result = perigee(*work.command(out), rules=[("any", "exact-", number, "kill", 0), UNSYNCED])
        expect(result.returncode in (-9, work.status), result.stderr)  # threads may need one operation less
        if out.exists():
            work.nothing_half_done(out)
        resume(work, out, number)

    finish = range(max(1, count - last), count + 1)
    cases(die, sorted({*spread(count, times), *finish}),
          lambda number: f"{work.command('OUT')[0]} killed at operation {number}")
