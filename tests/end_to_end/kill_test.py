#!/usr/bin/env python3
"""convert dies at any moment and goes on as if nothing had happened: SIGKILL at random times and in every phase.

After each death nothing under a final name is half done; after the resumption the folder is the undisturbed one,
byte for byte. What a power cut does is not shown here; that is what the order of syncs and renames is for.
"""

from _kills import Work, exact_kills, random_kills
from _support import case, close, expect_nothing_half_done, expect_same, has_sanitizer, skip, succeed, tree

RANDOM_KILLS = 200
EXACT_KILLS = 120
FINALISATION = 60  # operations at the end
OPTIONS = ["--io", "threads", "--jobs", "1"]


def main():
    if has_sanitizer():
        skip("a sanitizer does not go with LD_PRELOAD")
    succeed("synth", "source", "--preset", "tiny", "--layers", "3", "--experts", "3")
    succeed("convert", "source", "undisturbed", *OPTIONS)
    wanted = tree("undisturbed")
    with case("an undisturbed run leaves no journal"):
        expect_same("undisturbed", wanted)
    work = Work(command=lambda out: ["convert", "source", out, *OPTIONS],
                nothing_half_done=lambda out: expect_nothing_half_done(out, wanted),
                prove=lambda out: expect_same(out, wanted), seed=20)
    random_kills(work, RANDOM_KILLS)
    exact_kills(work, EXACT_KILLS, FINALISATION)
    close()


main()
