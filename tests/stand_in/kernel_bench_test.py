#!/usr/bin/env python3
"""Every case of kernel_bench launches, and reports: kernel_bench_test.py PROGRAM, one that runs on the stand-in
for CUDA (tests/stand_in) at tiny sizes. Times mean nothing there."""

import json
import subprocess
import sys
import unittest

PROGRAM = ""


def run(*words: str) -> list[str]:
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False, timeout=280)
    if done.returncode != 0:
        raise AssertionError(done.stdout[-2000:] + done.stderr[-2000:])
    return done.stdout.splitlines()


class KernelBench(unittest.TestCase):
    def test_every_case_has_a_cold_and_a_warm_row(self) -> None:
        rows = [json.loads(line) for line in run("--launches", "2")]
        self.assertEqual(rows.pop(0)["header"]["gpu"], "stand-in")
        self.assertEqual([row["kernel"] for row in (rows[0], rows[-1])], ["copy", "copy"])
        expected = [(name, cache) for name in run("--list") for cache in ("cold", "warm")]
        self.assertGreaterEqual(len(expected), 30)
        found = [(row["kernel"] + ", " + row["shape"], row.get("cache")) for row in rows[1:-1]]
        self.assertEqual(found, expected)
        for row in rows:
            self.assertTrue(row["finite"], row)
            self.assertGreater(row["us_median"], 0)

    def test_calls_are_replayed_and_equal(self) -> None:
        rows = [json.loads(line) for line in run("--replays", "20")][1:]
        self.assertEqual({row["kernel"] for row in rows}, {"hydra forward"})
        self.assertEqual({row["different_words"] for row in rows}, {0})


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
