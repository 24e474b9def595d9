"""The lines of schedule_bench: shares follow from times, and none is flattered.

    schedule_bench_test.py PROGRAM
"""

import json
import os
import subprocess
import sys
import unittest

PROGRAM = sys.argv.pop(1) if len(sys.argv) > 1 else "schedule_bench"


def run(*options):
    return subprocess.run([PROGRAM, "--depth", "1", "--repeats", "1", *options], capture_output=True, text=True, timeout=120)


def lines(*options):
    result = run(*options)
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


class ScheduleBenchTest(unittest.TestCase):
    def check(self, line):
        ratio = line["work_ms"] / line["one_thread_ms"]
        self.assertAlmostEqual(line["work_ratio"], ratio)
        self.assertEqual(line["is_less_work"], ratio < 0.99)
        least = min(line["work_ms"], line["one_thread_ms"])
        first = line["meetings"][0]
        for meeting in line["meetings"]:
            self.assertAlmostEqual(meeting["efficiency"], least / (line["threads"] * meeting["ms"]))
            waiting = line["passes"] * (meeting["assumed_us"] - first["assumed_us"]) / 1000
            self.assertAlmostEqual(meeting["ms"] - first["ms"], waiting)
        # Not even without meetings do N threads more than N times the work of one.
        self.assertEqual(first["assumed_us"], 0)
        self.assertLessEqual(first["efficiency"], 1 + 1e-9)
        self.assertGreater(line["meeting_us"], 0)
        processors = len(os.sched_getaffinity(0))
        self.assertLessEqual(line["meeting_threads"], min(line["threads"], processors))
        self.assertEqual("real_ms" in line, line["meeting_threads"] == line["threads"])
        if "real_ms" in line:
            self.assertAlmostEqual(line["real_efficiency"], least / (line["threads"] * line["real_ms"]))

    def test_shares_follow_from_times_in_every_precision(self):
        for precision in ("float32", "bfloat16", "int8"):
            found = lines("--precision", precision, "--threads", "1,2,64", "--meeting", "0,5,50")
            self.assertEqual([line["threads"] for line in found], [1, 2, 64])
            for line in found:
                with self.subTest(precision=precision, threads=line["threads"]):
                    self.assertEqual(line["precision"], precision)
                    self.check(line)

    def test_a_cut_by_outputs_meets_more_often(self):
        by_tokens, by_outputs = (lines("--threads", "64", "--split", way, "--meeting", "0")[0] for way in ("off", "on"))
        self.assertLess(by_tokens["passes"], by_outputs["passes"])

    def test_meetings_have_several_lengths_unless_one_is_named(self):
        self.assertEqual([meeting["assumed_us"] for meeting in lines("--threads", "8")[0]["meetings"]], [2, 5, 10, 20])

    def test_wrong_usage_is_refused(self):
        for wrong in (["--precision", "fp16"], ["--split", "maybe"], ["--repeats", "0"], ["--threads", "0"],
                      ["--meeting", "soon"], ["--mechanism", "none"]):
            with self.subTest(wrong=wrong):
                self.assertEqual(run(*wrong).returncode, 2)


if __name__ == "__main__":
    unittest.main()
