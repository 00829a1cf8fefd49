#!/usr/bin/env python3
"""Looks at how run_tests.py counts: a failure that is not counted would be worse than no test."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import run_tests
from run_tests import Outcome

GTEST_REPORT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="5" failures="1" disabled="1" errors="0" time="0.1" name="AllTests">
  <testsuite name="Bytes" tests="5" failures="1" disabled="1" skipped="1" errors="0" time="0.1">
    <testcase name="One" status="run" result="completed" time="0" classname="Bytes" />
    <testcase name="Two" status="run" result="completed" time="0" classname="Bytes" />
    <testcase name="Bad" status="run" result="completed" time="0" classname="Bytes">
      <failure message="x" type=""></failure>
      <failure message="y" type=""></failure>
    </testcase>
    <testcase name="Left" status="run" result="skipped" time="0" classname="Bytes"><skipped message="no data"/></testcase>
    <testcase name="Off" status="notrun" result="suppressed" time="0" classname="Bytes" />
  </testsuite>
</testsuites>"""


def ctest_report(**programs):
    cases = "".join(f'<testcase name="{name}" classname="{name}" time="1" status="{status}"/>'
                    for name, status in programs.items())
    return f'<?xml version="1.0"?><testsuite name="(empty)" tests="{len(programs)}">{cases}</testsuite>'


class CountsOfUnitTests(unittest.TestCase):
    def count(self, ctest, reports):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "ctest.xml").write_text(ctest)
            for name, text in reports.items():
                (Path(folder) / f"test_{name}.xml").write_text(text)
            return run_tests.count_unit_tests(Path(folder))

    def test_counts_cases_and_not_programs(self):
        counts = self.count(ctest_report(base="fail"), {"base": GTEST_REPORT})
        self.assertEqual(counts, Outcome(passed=2, failed=1, skipped=1))

    def test_counts_a_program_that_died_before_its_report_as_failed(self):
        self.assertEqual(self.count(ctest_report(base="fail"), {}), Outcome(failed=1))

    def test_counts_a_program_that_died_after_its_report_as_failed(self):
        report = GTEST_REPORT.replace("<failure", "<other").replace("</failure", "</other")
        self.assertEqual(self.count(ctest_report(base="fail"), {"base": report}), Outcome(3, 1, 1))

    def test_counts_a_program_that_could_not_start_as_failed(self):
        self.assertEqual(self.count(ctest_report(base="notrun", other="run"), {}), Outcome(1, 1))


class CountsOfScripts(unittest.TestCase):
    def test_believes_a_closing_line(self):
        self.assertEqual(run_tests.script_counts(0, "hello\n12 passed, 0 failed\n"), Outcome(12, 0))
        self.assertEqual(run_tests.script_counts(1, "12 passed, 3 failed\n"), Outcome(12, 3))
        self.assertEqual(run_tests.script_counts(0, "12 passed, 0 failed, 4 skipped\n"), Outcome(12, 0, 4))

    def test_reads_the_summary_of_unittest(self):
        good = "...\n" + "-" * 70 + "\nRan 3 tests in 0.010s\n\nOK\n"
        bad = "F.E.s\n" + "-" * 70 + "\nRan 5 tests in 0.010s\n\nFAILED (failures=1, errors=1, skipped=1)\n"
        self.assertEqual(run_tests.script_counts(0, good), Outcome(3))
        self.assertEqual(run_tests.script_counts(1, bad), Outcome(2, 2, 1))

    def test_counts_a_silent_script_by_its_status(self):
        self.assertEqual(run_tests.script_counts(0, ""), Outcome(1))
        self.assertEqual(run_tests.script_counts(3, "oops\n"), Outcome(0, 1))

    def test_never_takes_a_bad_status_for_success(self):
        self.assertEqual(run_tests.script_counts(1, "12 passed, 0 failed\n"), Outcome(12, 1))

    def test_ignores_a_closing_line_that_is_not_last(self):
        self.assertEqual(run_tests.script_counts(1, "12 passed, 0 failed\nSegmentation fault\n"), Outcome(0, 1))


class Names(unittest.TestCase):
    def test_nothing_means_everything(self):
        self.assertEqual(run_tests.select([]), (list(run_tests.PARTS), run_tests.Selection()))

    def test_a_part_and_a_room_narrow_each_other(self):
        parts, selection = run_tests.select(["asan", "base"])
        self.assertEqual((parts, selection.rooms), (["asan"], ("base",)))

    def test_a_room_alone_runs_in_the_release_build(self):
        self.assertEqual(run_tests.select(["base"])[0], ["release"])

    def test_anything_else_is_a_filter(self):
        self.assertEqual(run_tests.select(["Sha256"])[1].gtest_filter, "Sha256.*")
        self.assertEqual(run_tests.select(["Sha256.Knows*", "File"])[1].gtest_filter, "Sha256.Knows*:File.*")


if __name__ == "__main__":
    unittest.main()
