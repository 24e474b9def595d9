"""Tests of gpu_report.py and gpu_results.py on files as the stages leave them."""

import contextlib
import io
import json

import gpu_report as report
import gpu_results as results
from pretended import Folder
from processes import Json


def gtest(*tests: Json) -> str:
    return json.dumps({"testsuites": [{"name": "HydraCuda", "testsuite": list(tests)}]})


PASSED = {"name": "EqualsTheTwin", "status": "RUN", "result": "COMPLETED"}
FAILED = PASSED | {"name": "NanStays", "failures": [{"failure": "found nan | expected 1"}]}
SKIPPED = PASSED | {"result": "SKIPPED"}
MEMCHECK = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: {} errors\n"
RACECHECK = "========= RACECHECK SUMMARY: 3 hazards displayed (2 errors, 1 warnings)\n"


class Stages(Folder):
    def judged(self, what: str) -> list[str]:
        return report.judge(self.folder, what).split("\t")


class Tests(Stages):
    def put_run(self, name: str, code: int, text: str = "") -> None:
        self.put(f"tests/{name}.exit", f"{code}\n")
        if text:
            self.put(f"tests/{name}.json", text)

    def test_shards_are_added(self) -> None:
        self.put_run("gpu_kernel_tests.0", 0, gtest(PASSED, SKIPPED))
        self.put_run("gpu_kernel_tests.1", 0, gtest(PASSED))
        self.assertEqual(self.judged("tests"), ["passed", "2 passed, 0 failed, 1 skipped"])

    def test_failures_are_kept_with_their_messages(self) -> None:
        self.put_run("gpu_kernel_tests.0", 1, gtest(PASSED, FAILED))
        self.assertEqual(self.judged("tests")[0], "failed")
        found = results.test_programs(self.folder / "tests")[0]["failures"]
        self.assertEqual(found[0]["test"], "HydraCuda.NanStays")

    def test_a_process_that_crashed_or_ran_out_of_time_is_a_failure(self) -> None:
        self.put_run("gpu_kernel_tests.0", 139)
        self.put_run("gpu_kernel_tests.1", 124, gtest(PASSED)[:40])
        self.put_run("model_tests", 1, gtest(PASSED))
        status, words = self.judged("tests")
        self.assertEqual(status, "failed")
        self.assertIn("gpu_kernel_tests.0 ended with exit code 139", words)
        self.assertIn("gpu_kernel_tests.1 stopped: its time was over", words)
        self.assertIn("although no test failed", words)

    def test_python_programs_are_counted_by_what_they_print(self) -> None:
        self.put_run("ops_test", 1)
        self.put(
            "tests/ops_test.log",
            "F..\n====\nFAIL: test_hydra (__main__.ValuesOnGpu)\n----\n"
            "Traceback:\nAssertionError\n\n"
            "----\nRan 3 tests in 2.0s\n\nFAILED (failures=1, skipped=1)\n",
        )
        self.assertEqual(self.judged("tests"), ["failed", "1 passed, 1 failed, 1 skipped"])
        found = results.test_programs(self.folder / "tests")[0]["failures"]
        self.assertEqual(found[0]["test"], "test_hydra (__main__.ValuesOnGpu)")
        self.assertIn("AssertionError", found[0]["message"])

    def test_most_skipped_is_no_pass(self) -> None:
        self.put_run("gpu_kernel_tests.0", 0, gtest(PASSED, SKIPPED, SKIPPED))
        said = "device_array.h:150: Skipped\nno NVIDIA driver is loaded\n"
        self.put("tests/gpu_kernel_tests.0.log", said)
        status, words = self.judged("tests")
        self.assertEqual(status, "failed")
        self.assertIn("no NVIDIA driver is loaded", words)


class Sanitizer(Stages):
    def put_run(self, name: str, code: int, text: str) -> None:
        self.put(f"sanitizer/{name}.exit", f"{code}\n")
        self.put(f"sanitizer/{name}.log", text)

    def test_clean(self) -> None:
        self.put_run("memcheck.0", 0, MEMCHECK.format(0))
        self.put_run("memcheck.1", 137, "========= COMPUTE-SANITIZER\n")
        status, words = self.judged("sanitizer")
        self.assertEqual(status, "passed")
        self.assertIn("0 errors, 1 of 2 processes", words)
        self.assertIn("memcheck.1 stopped", words)

    def test_errors_and_races_fail(self) -> None:
        self.put_run("memcheck.0", 0, "========= Invalid __global__ read\n" + MEMCHECK.format(4))
        self.put_run("racecheck.0", 0, RACECHECK)
        status, words = self.judged("sanitizer")
        self.assertEqual(status, "failed")
        self.assertIn("memcheck: 4 errors", words)
        self.assertIn("racecheck: 2 errors", words)

    def test_a_tool_that_does_not_work_is_no_failure(self) -> None:
        text = "========= Error: Device not supported\n" + MEMCHECK.format(1)
        self.put_run("memcheck.0", 1, text)
        status, words = self.judged("sanitizer")
        self.assertEqual(status, "not run")
        self.assertIn("does not work here: Error: Device not supported", words)


class Page(Folder):
    def write(self) -> tuple[Json, str]:
        report.write(self.folder)
        raw, page = ((self.folder / name).read_text(encoding="utf-8") for name in report.NAMES)
        return json.loads(raw), page

    def test_without_a_gpu_it_says_so(self) -> None:
        report.main(["note", str(self.folder), "gpu=", "no_gpu=no driver", "commit=abc"])
        report.main(["stage", str(self.folder), "configure", "passed", "12", "90a-real"])
        report.main(["stage", str(self.folder), "tests", "not run", "0", "no GPU: no driver"])
        raw, page = self.write()
        self.assertEqual([each["stage"] for each in raw["stages"]], ["configure", "tests"])
        self.assertIn("- GPU: not run: no GPU (no driver)", page)
        self.assertIn("| tests | not run | 0 | no GPU: no driver |", page)
        self.assertEqual(page.count("not run: no GPU |"), len(raw["targets"]))

    def test_everything_that_was_measured_is_in_it(self) -> None:
        report.main(["note", str(self.folder), "gpu=H200, 9.0", "commit=abc"])
        row = {
            "kernel": "hydra forward", "shape": "B 8, N 8161, D 768", "type": "bfloat16",
            "cache": "cold", "us_median": 100.0, "us_p10": 99.0, "us_p90": 101.0,
            "bytes": 4e8, "gb_per_s": 4000.0, "copy_gb_per_s": 4300.0, "share_of_copy": 0.93,
            "tflop_per_s": 4.0, "finite": True,
        }  # fmt: skip
        broken = {"kernel": "gelu", "shape": "rows", "type": "bfloat16", "error": "CUDA says: no"}
        lines = [{"header": {"gpu": "H200"}}, row, broken]
        text = "\n".join(map(json.dumps, lines)) + '\n{"kernel": "cut'
        self.put("kernels/kernels.jsonl", text)
        model_row = {
            "who": "torch", "setting": "timm, cudnn, eager", "attention": "softmax", "batch": 1,
            "img_size": [1088, 1920],
        }  # fmt: skip
        agreed = {
            "device": "cuda", "precision": "bfloat16", "images": 4, "same_top1": 4,
            "percent_same_top1": 100.0, "relative_difference": 0.01, "top1": 84.6,
        }  # fmt: skip
        model = {
            "header": {"versions": {"torch": "2.11"}},
            "matrix_rate": [{"tflops": 781.0}],
            "turns": {
                "hedgehog": {
                    "hedgehog": {"rounds": [{"ms_p50": 1.0}], "message": ""},
                    "flash": {"rounds": [None], "message": "no"},
                    "cudnn": {"rounds": [{"ms_p50": 7.0}], "message": ""},
                }
            },
            "rows": [
                model_row | {"ms_p50": 12.5, "images_per_second": 80.0},
                model_row | {"error": "out of memory"},
            ],
            "agreement": {"folder": "images", "settings": [agreed]},
            "remarks": ["one remark"],
        }
        self.put("model/model.json", json.dumps(model))
        raw, page = self.write()
        self.assertTrue(raw["targets"][0]["reached"])
        self.assertEqual(len(raw["kernels"]), 2)
        for expected in (
            "| 4000 of 4300 GB/s (100.0 us) | 0.930 | reached |",
            "| gelu | rows | failed | CUDA says: no |",
            "| 1 | 1.00 | no | 7.00 |",
            "out of memory",
            "| cuda bfloat16 | 84.6 | 4 of 4 | 100.0 % | 1.0e-02 |",
            "- one remark",
            "torch 2.11",
        ):
            self.assertIn(expected, page)

    def test_wrong_words_are_refused(self) -> None:
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(report.main(["write"]), 2)
            self.assertEqual(report.main(["stage", str(self.folder), "tests"]), 2)
