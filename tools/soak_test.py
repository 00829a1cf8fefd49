#!/usr/bin/env python3
"""Tests what tools/soak/soak.py concludes from its samples; the soak itself takes its time and is run by hand."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "soak"))
import soak  # noqa: E402


def samples(*mebibytes):
    return [soak.Sample(second, int(size * 2**20), 10, 4) for second, size in enumerate(mebibytes)]


class Growth(unittest.TestCase):
    def test_a_server_may_warm_up(self):
        self.assertIsNone(soak.growth_problem(samples(*range(100, 200, 5), *[200] * 80)))

    def test_what_grows_on_is_a_problem(self):
        self.assertIn("has grown", soak.growth_problem(samples(*range(100, 200))))

    def test_a_little_is_the_allocators(self):
        self.assertIsNone(soak.growth_problem(samples(*[100 + i / 10 for i in range(100)])))

    def test_peaks_do_not_count(self):
        self.assertIsNone(soak.growth_problem(samples(*[100] * 90, *[400] * 3, *[100] * 7)))

    def test_few_samples_are_enough(self):
        self.assertIsNone(soak.growth_problem(samples(100, 100)))


class Pictures(unittest.TestCase):
    def test_a_curve_goes_from_the_lowest_to_the_highest(self):
        self.assertEqual(soak.curve([0, 50, 100]), "▁▄█")
        self.assertEqual(soak.curve([7, 7]), "▁▁")
        self.assertEqual(len(soak.curve(list(range(1000)))), 72)

    def test_a_picture_has_every_sample(self):
        picture = soak.svg(samples(1, 2, 3))
        self.assertEqual(picture.count("<polyline"), 3)
        self.assertEqual(picture.split('points="')[1].split('"')[0].count(","), 3)


if __name__ == "__main__":
    unittest.main()
