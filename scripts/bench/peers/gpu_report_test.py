"""Tests of gpu_report.py and gpu_targets.py on what steps leave."""

import json
import unittest

import gpu_report as report
import gpu_targets as targets
from pretended import Folder
from processes import Json
from turns import new_record

PASSED = "[ RUN      ] A.B\n[       OK ] A.B (3 ms)\n"
FAILED = "a.cpp:3: Failure\nfound nan\n[  FAILED  ] A.C (1 ms)\n"
SKIPPED = "a.cpp:1: Skipped\nno GPU: none\n\n[  SKIPPED ] A.D (0 ms)\n"
UNITTEST = "Ran 5 tests in 0.1s\n\nFAILED (failures=1, errors=1, skipped=1)\n"
RACECHECK = "========= RACECHECK SUMMARY: 3 hazards displayed (2 errors, 1 warnings)\n"


class Verdicts(unittest.TestCase):
    def test_exit_codes_and_logs(self) -> None:
        for code, log, result, words in [
            ("0", PASSED + PASSED + SKIPPED, "passed", "2 passed, 1 skipped"),
            ("1", PASSED + FAILED, "failed", "1 passed, 1 failed"),
            ("0", SKIPPED, "not run", "no GPU: none"),
            ("1", UNITTEST, "failed", "2 passed, 2 failed, 1 skipped"),
            ("0", "OK (skipped=1)", "passed", ""),
            ("139", PASSED, "failed", "exit code 139: [       OK ] A.B (3 ms)"),
            ("124", PASSED, "stopped", "after 7 s; 1 passed"),
            ("77", "no GPU: no driver", "not run", "no GPU: no driver"),
            ("no time was left", "", "no time was left", ""),
            ("0", PASSED + "========= ERROR SUMMARY: 0 errors\n", "passed", "0 errors in 1 proc"),
            ("123", RACECHECK + RACECHECK, "failed", "4 errors in 2 processes"),
            ("123", "========= Error: Device not supported", "not run", "Device not supported"),
            ("123", "ncu is not installed\n", "not run", "ncu is not installed"),
            ("0", PASSED + RACECHECK, "failed", "2 errors in 1 processes"),
            ("1", PASSED + FAILED + "RuntimeError: Unable to find an engine\n", "failed", "1 failed"),
            ("1", "CUDA says: operation not supported on this platform\n", "failed", "exit code 1"),
        ]:
            with self.subTest(log):
                found = report.verdict(code, "7", log)
                self.assertEqual(found[0], result)
                self.assertIn(words, found[1])


class Pages(Folder):
    def test_what_is_cut_off_is_reported(self) -> None:
        self.put("steps.tsv", "kernel_tests\t1\t5\n")
        self.put("kernel_tests.log", PASSED + FAILED)
        row = {"kernel": "gelu", "shape": "rows 8", "type": "float32", "error": "CUDA says: no"}
        self.put("kernels.log", json.dumps(row) + '\n{"kernel": "hy')
        self.put("model.json", '{"rows": [')
        self.assertEqual(report.main([str(self.folder)]), 1)
        page = (self.folder / "report.md").read_text(encoding="utf-8")
        self.assertIn("| kernel_tests | failed | 5 | 1 passed, 1 failed |", page)
        self.assertIn("| kernels | running |", page)
        self.assertIn("[  FAILED  ] A.C (1 ms)", page)
        self.assertIn("| gelu | rows 8 | CUDA says: no |", page)


def kernel(shape: str, share: float, **more: object) -> Json:
    return {
        "kernel": "hydra forward", "shape": shape, "cache": "cold", "finite": True,
        "share_of_copy": share, "gb_per_s": 4e3 * share, "copy_gb_per_s": 4e3, "us_median": 1.0,
    } | more  # fmt: skip


class Targets(unittest.TestCase):
    def test_what_a_command_does_not_measure_has_no_rows(self) -> None:
        self.assertEqual(targets.table([], {}), [])
        rows = targets.table([], {"header": {}, "rows": []})
        self.assertEqual({row["reached"] for row in rows}, {None})

    def test_kernels_are_judged_cold_and_finite_at_batch_8(self) -> None:
        shape = "B 8, N 8161, D 768"
        for rows, reached in [
            ([kernel(shape, 0.86)], True),
            ([kernel(shape, 0.84)], False),
            ([kernel(shape, 0.9, cache="warm")], None),
            ([kernel(shape, 0.9, finite=False)], None),
            ([kernel("B 1, N 8161, D 768", 0.9)], None),
        ]:
            self.assertIs(targets.table(rows, {})[0]["reached"], reached)

    def test_the_fastest_of_a_round_counts(self) -> None:
        rounds = {
            "hedgehog": [1.0, 1.0, 1.0, None], "flash": [8.0, 8.0, None, 9.0],
            "cudnn": [7.0, 5.0, 6.5, 2.0], "math": [None] * 4,
        }  # fmt: skip
        records = {
            who: new_record() | {"rounds": [ms and {"ms_p50": ms} for ms in times]}
            for who, times in rounds.items()
        }
        found = targets.hedgehog({"turns": {"hedgehog": records}})
        assert found is not None
        self.assertAlmostEqual(found[0], 6.5)
        self.assertIn("cudnn", found[1])

    def test_latency_has_a_bound_above(self) -> None:
        for rate, reached in ((400, True), (300, False)):
            rows = [
                {"who": "hydrascope", "attention": "hydra", "img_size": targets.LARGE,
                 "batch": batch, "images_per_second": each, "ms_p50": 1e3 * batch / each}
                for batch, each in ((1, rate), (8, 460))
            ]  # fmt: skip
            model = {"header": {"gpu": "NVIDIA H100"}, "rows": rows}
            verdicts = [row["reached"] for row in targets.table([], model) if row["ratio"]]
            # Two peers by arithmetic, what is expected, and the latency.
            self.assertEqual(verdicts, [True, True, True, reached])
