#!/usr/bin/env python3
"""Plants small trees with one fault each and looks at what check_includes.py says about them."""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import check_includes


def problems_of(files):
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = Path(root) / "src" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        problems, _ = check_includes.check(root)
        return [str(problem) for problem in problems]


class CheckIncludes(unittest.TestCase):
    def assert_one_problem(self, files, place, *words):
        problems = problems_of(files)
        self.assertEqual(len(problems), 1, problems)
        self.assertTrue(problems[0].startswith(place + ": "), problems[0])
        for word in words:
            self.assertIn(word, problems[0])

    def test_accepts_includes_of_lower_floors_and_of_the_own_room(self):
        self.assertEqual(problems_of({
            "base/a.h": "#pragma once\n#include <vector>\n",
            "numerics/n.h": '#include "base/a.h"\n',
            "convert/c.h": '#include "base/a.h"\n  #  include "numerics/n.h"\n',
            "convert/c.cpp": '#include "convert/c.h"\n',
            "cli/main.cpp": '#include <CLI/CLI.hpp>\n#include "convert/c.h"\n',
        }), [])

    def test_refuses_an_upward_include(self):
        self.assert_one_problem({
            "base/a.cpp": '// first line\n#include "convert/c.h"\n',
            "convert/c.h": "",
        }, "src/base/a.cpp:2", "upward", "base is on floor 1", "convert on floor 6")

    def test_refuses_a_sideways_include(self):
        self.assert_one_problem({
            "synth/s.h": "",
            "survey/c.cpp": '#include "synth/s.h"\n',
        }, "src/survey/c.cpp:1", "sideways", "share floor 4")

    def test_refuses_a_room_that_must_not_be_known(self):
        self.assert_one_problem({
            "compute/k.h": "",
            "serve/s.cpp": '#include "compute/k.h"\n',
        }, "src/serve/s.cpp:1", "must know nothing of compute")

    def test_refuses_a_missing_file(self):
        self.assert_one_problem({"base/a.cpp": '#include "base/gone.h"\n'}, "src/base/a.cpp:1", "does not exist")

    def test_refuses_a_quoted_include_without_room(self):
        self.assert_one_problem({
            "base/a.h": "",
            "base/a.cpp": '\n\n#include "a.h"\n',
        }, "src/base/a.cpp:3", "does not start with a room")

    def test_refuses_an_include_that_climbs_out(self):
        self.assert_one_problem({
            "base/a.h": "",
            "base/a.cpp": '#include "../base/a.h"\n',
        }, "src/base/a.cpp:1", "does not start with a room")

    def test_refuses_our_own_file_in_angle_brackets(self):
        self.assert_one_problem({
            "base/a.h": "",
            "base/b.cpp": "#include <base/a.h>\n",
        }, "src/base/b.cpp:1", "in quotes")

    def test_refuses_an_include_through_a_macro(self):
        self.assert_one_problem({"base/a.cpp": "#include HEADER\n"}, "src/base/a.cpp:1", "macro")

    def test_refuses_a_circle_of_files(self):
        self.assert_one_problem({
            "base/a.h": '#include "base/b.h"\n',
            "base/b.h": '#include "base/c.h"\n',
            "base/c.h": '\n#include "base/a.h"\n',
        }, "src/base/c.h:2", "base/a.h -> base/b.h -> base/c.h -> base/a.h")

    def test_refuses_a_file_that_includes_itself(self):
        self.assert_one_problem({"base/a.h": '#include "base/a.h"\n'}, "src/base/a.h:1", "closes a circle")

    def test_reports_a_circle_between_rooms_where_it_climbs(self):
        problems = problems_of({
            "base/a.h": '#include "numerics/n.h"\n',
            "numerics/n.h": '#include "base/a.h"\n',
        })
        self.assertTrue(any(p.startswith("src/base/a.h:1: ") and "upward" in p for p in problems), problems)

    def test_refuses_an_unknown_room_and_a_file_outside_of_rooms(self):
        self.assert_one_problem({"attic/a.cpp": ""}, "src/attic/a.cpp:1", "no known room")
        self.assert_one_problem({"main.cpp": ""}, "src/main.cpp:1", "no known room")

    def test_takes_a_diamond_for_what_it_is(self):
        self.assertEqual(problems_of({
            "base/a.h": "",
            "base/b.h": '#include "base/a.h"\n',
            "base/c.h": '#include "base/a.h"\n',
            "base/d.cpp": '#include "base/b.h"\n#include "base/c.h"\n',
        }), [])

    def test_exits_with_2_without_a_tree(self):
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            self.assertEqual(check_includes.main([]), 2)
            self.assertEqual(check_includes.main(["/nonexistent"]), 2)
        self.assertIn("Usage", errors.getvalue())


if __name__ == "__main__":
    unittest.main()
