"""scripts/gpu_check.sh from its options to its report, with programs that only pretend."""

import json
import os
import subprocess
import sys

from pretended import Pretended
from processes import ROOT, Json

SCRIPT = ROOT / "scripts" / "gpu_check.sh"

SMI = "print('Pretended GPU, 9.0, 580.1, 1000 MiB')"
NO_SMI = "sys.exit('No devices were found')"
TESTS = """
file = next(word for word in sys.argv if word.startswith("--gtest_output=json:")).split(":", 1)[1]
test = {"name": "Shard" + os.environ.get("GTEST_SHARD_INDEX", ""), "status": "RUN"}
with open(file, "w") as out:
    json.dump({"testsuites": [{"name": "Cuda", "testsuite": [test]}]}, out)
"""
SANITIZER = """
if "racecheck" in sys.argv:
    sys.exit("========= Error: Device not supported")
print("========= ERROR SUMMARY: 0 errors")
"""
KERNEL_BENCH = """
print(json.dumps({"header": {"gpu": "pretended"}}))
print(json.dumps({"kernel": "patchify", "shape": "B 8, N", "type": "uint8", "cache": "cold",
                  "us_median": 1.0, "us_p10": 1.0, "us_p90": 1.0, "bytes": 1, "flops": 1,
                  "gb_per_s": 9.0, "tflop_per_s": 1.0, "copy_gb_per_s": 10.0,
                  "share_of_copy": 0.9, "finite": True}))
sys.exit("error: gelu: CUDA says: no")
"""
HYDRASCOPE = """
if sys.argv[1] != "convert":
    sys.exit("error: this only pretends")
with open(sys.argv[sys.argv.index("--report") + 1], "w") as out:
    json.dump({"minutes": 6.5, "agreement": 80.0, "held_out_images": 400,
               "stages": [{"images_per_second": 300.0}]}, out, indent=1)
"""


class Script(Pretended):
    def setUp(self) -> None:
        super().setUp()
        for name, text in {
            "bin/compute-sanitizer": SANITIZER,
            "build/tests/gpu_kernel_tests": TESTS,
            "build/tests/kernel_bench": KERNEL_BENCH,
            "build/hydrascope": HYDRASCOPE,
            # Whatever Python runs this test, the one that the script calls has no torch.
            "lib/torch.py": "raise ImportError('no torch here')",
        }.items():
            self.program(name, text)

    def call(self, *words: str) -> tuple[int, str]:
        environment = os.environ | {
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(self.folder / "lib"),
        }
        done = subprocess.run(
            [
                str(SCRIPT), "--out", str(self.folder / "out"), "--build",
                str(self.folder / "build"), "--python", sys.executable, "--shards", "2", *words,
            ],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def report(self) -> Json:
        text = (self.folder / "out" / "gpu_report.json").read_text(encoding="utf-8")
        found: Json = json.loads(text)
        return found

    def stages(self) -> dict[str, Json]:
        return {each["stage"]: each for each in self.report()["stages"]}

    def test_stages_that_fail_do_not_lose_the_others(self) -> None:
        self.program("bin/nvidia-smi", SMI)
        code, said = self.call("--stages=tests,sanitizer,kernels,model,report")
        self.assertEqual(code, 1, said)
        stages = self.stages()
        self.assertEqual(
            {name: stage["status"] for name, stage in stages.items()},
            {"tests": "passed", "sanitizer": "passed", "kernels": "failed", "model": "failed"},
        )
        self.assertIn("2 passed", stages["tests"]["message"])
        self.assertIn("racecheck: 0 errors, 0 of 2", stages["sanitizer"]["message"])
        self.assertIn("Device not supported", stages["sanitizer"]["message"])
        self.assertIn("1 rows; exit code 1 error: gelu", stages["kernels"]["message"])
        report = self.report()
        self.assertEqual(report["environment"]["architectures"], "90-real")
        self.assertIn("no torch here", " ".join(report["model"]["remarks"]))
        self.assertTrue(next(each for each in report["targets"] if each["reached"]))
        self.assertIn("| 0.900 | reached |", said)
        self.assertEqual(self.call("--stages", "tests", "--require-targets")[0], 4)

    def test_no_gpu_is_no_failure(self) -> None:
        self.program("bin/nvidia-smi", NO_SMI)
        code, said = self.call("--stages", "tests,sanitizer,kernels,model,report")
        self.assertEqual(code, 0, said)
        for stage in self.stages().values():
            self.assertEqual(stage["status"], "not run")
            self.assertIn("nvidia-smi says: No devices were found", stage["message"])

    def test_what_was_not_built_is_a_failure(self) -> None:
        self.program("bin/nvidia-smi", SMI)
        (self.folder / "build/tests/gpu_kernel_tests").unlink()
        self.assertEqual(self.call("--stages", "tests")[0], 1)
        self.assertIn("build-kernels comes first", self.stages()["tests"]["message"])

    def test_a_conversion_is_timed(self) -> None:
        self.program("bin/nvidia-smi", SMI)
        self.assertEqual(self.call("--stages", "conversion")[0], 0)
        self.assertEqual(self.stages()["conversion"]["status"], "not run")
        code, said = self.call("--stages", "conversion", "--pictures", str(self.folder))
        self.assertEqual(code, 0, said)
        self.assertIn("6.5 minutes", self.stages()["conversion"]["message"])
        target = self.report()["targets"][-1]
        self.assertEqual((target["ratio"], target["reached"]), (6.5, False))

    def test_wrong_usage(self) -> None:
        for words in (
            ["--stages", "nothing"],
            ["--limit", "soon"],
            ["--out"],
            ["there"],
            ["--nothing"],
        ):
            self.assertEqual(self.call(*words)[0], 2)
