#!/usr/bin/env python3
"""Checks the house: no include runs upward, and no include makes a circle.

A room is a folder of src/ and stands on a floor. A file may include its own room and rooms on lower floors. Circles
between rooms are thereby impossible; circles between files of one room are looked for. This reads #include lines as
text and runs no preprocessor, so an include inside #if counts like any other.

Usage: check_includes.py ROOT       (ROOT contains src/)
"""

import re
import sys
from pathlib import Path
from typing import NamedTuple

FLOORS = {
    "base": 1,
    "numerics": 2,
    "checkpoint": 3, "compute": 3, "text": 3, "media": 3,
    "synth": 4, "engines": 4, "survey": 4, "experts": 4, "grammar": 4,
    "verify": 5, "model": 5,
    "convert": 6, "engine": 6,
    "serve": 7, "proof": 7, "deploy": 7, "bench": 7, "pack": 7,
    "plan": 8,
    "cli": 9,
}

# Rooms below that a room must nevertheless know nothing of: kernels and file formats stay out of the upper floors.
FORBIDDEN = {
    "engine": {"checkpoint"},
    "serve": {"checkpoint", "compute"},
    "deploy": {"compute"},
}

SUFFIXES = {".h", ".hpp", ".cuh", ".c", ".cpp", ".cu", ".inc"}
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"(?P<quoted>[^"]*)"|<(?P<angled>[^>]*)>|(?P<other>\S.*))')


class Include(NamedTuple):
    source: str  # "room/file.h", as an include would name it
    line: int
    target: str


class Problem(NamedTuple):
    source: str
    line: int
    sentence: str

    def __str__(self):
        return f"src/{self.source}:{self.line}: {self.sentence}"


def room_of(path):
    return path.split("/", 1)[0]


def source_files(src):
    files = (path for path in src.rglob("*") if path.suffix in SUFFIXES and path.is_file())
    return sorted(path.relative_to(src).as_posix() for path in files)


def read_includes(src, name, problems):
    """The project includes of one file; what cannot be checked is a problem."""
    includes = []
    text = (src / name).read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), start=1):
        match = INCLUDE.match(line)
        if match is None:
            continue
        if match["quoted"] is not None:
            includes.append(Include(name, number, match["quoted"]))
        elif match["angled"] is not None:
            if (src / match["angled"]).is_file():
                problems.append(Problem(name, number, f'write "{match["angled"]}" in quotes: it is our own file'))
        else:
            problems.append(Problem(name, number, "an include through a macro cannot be checked; name the file"))
    return includes


def problem_of(include, files):
    """Why this include may not be, or None."""
    target = include.target
    if "/" not in target or room_of(target) not in FLOORS:
        return f'"{target}" does not start with a room; write it from src/, like "base/error.h"'
    if target not in files:
        return f'"{target}" does not exist'
    mine, theirs = room_of(include.source), room_of(target)
    if mine == theirs:
        return None
    if FLOORS[theirs] > FLOORS[mine]:
        return (f'"{target}" is upward: {mine} is on floor {FLOORS[mine]}, {theirs} on floor {FLOORS[theirs]}; '
                "a room stands above all that it includes")
    if FLOORS[theirs] == FLOORS[mine]:
        return (f'"{target}" is sideways: {mine} and {theirs} share floor {FLOORS[mine]}; '
                "move what both need to a floor below")
    if theirs in FORBIDDEN.get(mine, ()):
        return f'"{target}" is forbidden: {mine} must know nothing of {theirs}'
    return None


def find_circles(includes_of):
    """One problem per include that closes a circle of files."""
    problems = []
    state = {}  # absent: not seen, True: on the current path, False: done

    for start in sorted(includes_of):
        if start in state:
            continue
        path = [start]
        state[start] = True
        pending = [iter(includes_of[start])]
        while pending:
            include = next(pending[-1], None)
            if include is None:
                state[path.pop()] = False
                pending.pop()
            elif state.get(include.target) is True:
                circle = path[path.index(include.target):] + [include.target]
                problems.append(Problem(include.source, include.line, "closes a circle: " + " -> ".join(circle)))
            elif include.target not in state and include.target in includes_of:
                state[include.target] = True
                path.append(include.target)
                pending.append(iter(includes_of[include.target]))
    return problems


def check(root):
    """All problems of the tree, and the number of files looked at."""
    src = Path(root) / "src"
    names = source_files(src)
    problems = []
    includes_of = {}
    for name in names:
        if "/" not in name or room_of(name) not in FLOORS:
            problems.append(Problem(name, 1, "stands in no known room; tools/check_includes.py lists the rooms"))
            continue
        includes_of[name] = read_includes(src, name, problems)
    files = set(names)
    for includes in includes_of.values():
        for include in includes:
            sentence = problem_of(include, files)
            if sentence is not None:
                problems.append(Problem(include.source, include.line, sentence))
    problems += find_circles(includes_of)
    return sorted(problems), len(names)


def main(arguments):
    if len(arguments) != 1 or not (Path(arguments[0]) / "src").is_dir():
        print(__doc__, file=sys.stderr)
        return 2
    problems, count = check(arguments[0])
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        return 1
    print(f"{count} files: no include runs upward")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
