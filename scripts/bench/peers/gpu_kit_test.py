"""scripts/gpu_kit.sh on the machine with the GPU, with programs that only pretend."""

import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

from pretended import Pretended
from processes import HERE, ROOT

SMI = "print('Pretended GPU, 9.0, 580.1, 1000 MiB, 1980 MHz')"
# As gtest does, a line is one write: processes that share a log do not cut each other's lines.
GTEST = """
mark = {mark!r}
sys.stdout.write("[ RUN      ] Cuda.Shard" + os.environ.get("GTEST_SHARD_INDEX", "") + "\\n")
sys.stdout.write("a_test.cpp:1: Skipped\\nno GPU: none\\n" if mark == "SKIPPED" else "\\n")
sys.stdout.write(f"[ {{mark:>8}} ] Cuda.Shard (1 ms)\\n")
"""
KERNEL_BENCH = """
if "--replays" in sys.argv:
    print(json.dumps({"kernel": "hydra forward", "shape": "B 8", "replays": 100000, "different_words": 0}))
    sys.exit()
print(json.dumps({"header": {"gpu": "pretended"}}))
print(json.dumps({"kernel": "patchify", "shape": "B 8, N", "type": "uint8", "cache": "cold",
                  "us_median": 1.0, "us_p10": 1.0, "us_p90": 1.0, "bytes": 1, "flops": 1,
                  "gb_per_s": 9.0, "tflop_per_s": 1.0, "copy_gb_per_s": 10.0,
                  "share_of_copy": 0.9, "finite": True}))
sys.exit("error: gelu: CUDA says: no")
"""
OPERATORS = """
print("Ran 3 tests in 0.1s\\n\\nOK (skipped=1)")
"""
NO_GPU = "print('no GPU: none here', file=sys.stderr); sys.exit(77)"
SANITIZER = """
if "racecheck" in sys.argv:
    sys.exit("========= Error: Device not supported")
print("========= ERROR SUMMARY: 0 errors")
"""
HANGS = """
print("it has begun", flush=True)
time.sleep(60)
"""
NOISE = """
print("first")
for _ in range(2000):
    print(os.urandom(5000).hex())
print("last")
"""
CMAKE = """
words = sys.argv[1:]
if "--build" in words:
    from pathlib import Path
    for target in words[words.index("--target") + 1:]:
        file = Path(words[1], "tests" if "_" in target else "", target)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("#!/bin/sh\\necho '[       OK ] Built.Here (1 ms)'\\n")
        file.chmod(0o755)
"""


class Kit(Pretended):
    def setUp(self) -> None:
        super().setUp()
        (self.folder / "scripts").mkdir()
        shutil.copy(ROOT / "scripts/gpu_kit.sh", self.folder / "scripts")
        (self.folder / "scripts/bench").mkdir(parents=True)
        (self.folder / "scripts/bench/peers").symlink_to(HERE)
        for name, text in {
            "bin/nvidia-smi": SMI,
            "bin/compute-sanitizer": SANITIZER,
            "bin/cmake": CMAKE,
            "build/gpu_kit/tests/gpu_kernel_tests": GTEST.format(mark="OK"),
            "build/gpu_kit/tests/gpu_model_tests": GTEST.format(mark="OK"),
            "build/gpu_kit/tests/kernel_bench": KERNEL_BENCH,
            "build/gpu_kit/hydrascope": "print('hydrascope 0.1.0')",
            "build/gpu_kit/hydrascope-engine": "",
            "build/gpu_kit/hydrascope-trainer": "",
            "build/gpu_kit/model/ops/libhydrascope_ops.so": "",
            "tests/model/ops/ops_test.py": OPERATORS,
            # Whatever Python runs this test, the one that the script calls has no torch.
            "lib/torch.py": "raise ImportError('no torch here')",
        }.items():
            self.program(name, text)

    def start(self, *words: str) -> "subprocess.Popen[str]":
        environment = os.environ | {
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(self.folder / "lib"),
            "OUT": str(self.folder / "results"),
        }
        script = self.folder / "scripts/gpu_kit.sh"
        return subprocess.Popen(
            [str(script), *words, "--python", sys.executable], env=environment, text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip

    def call(self, *words: str) -> tuple[int, str]:
        process = self.start(*words)
        said = process.communicate()[1]
        return process.returncode, said

    def archive(self, command: str) -> dict[str, str]:
        file = self.folder / "results" / f"{command}.tar.gz"
        self.assertLess(file.stat().st_size, 16 << 20)
        with tarfile.open(fileobj=io.BytesIO(file.read_bytes())) as found:
            return {
                Path(each.name).name: kept.read().decode("utf-8", "replace")
                for each in found
                if (kept := found.extractfile(each)) is not None
            }

    def result(self, command: str, step: str) -> str:
        page = self.archive(command)["report.md"]
        return next((line for line in page.splitlines() if line.startswith(f"| {step} |")), "")

    def when_begun(self, command: str, step: str) -> None:
        log = self.folder / "out" / command / f"{step}.log"
        while not (log.exists() and "begun" in log.read_text(encoding="utf-8")):
            time.sleep(0.05)

    def test_a_step_that_fails_does_not_lose_the_others(self) -> None:
        code, said = self.call("tests")
        self.assertEqual(code, 1, said)
        self.assertIn(f"{min(8, os.cpu_count() or 1)} passed", self.result("tests", "kernel_tests"))
        self.assertIn("| passed |", self.result("tests", "replays"))
        self.assertRegex(self.result("tests", "kernels"), r"failed \| \d+ \| exit code 1: gelu: CUDA")
        self.assertIn("2 passed, 1 skipped", self.result("tests", "operators"))
        page = self.archive("tests")["report.md"]
        self.assertIn("| 0.900 | reached |", page)
        self.assertIn("| hydra forward | B 8 | 100000 | 0 |", page)
        self.assertIn("Pretended GPU", page)

    def test_no_gpu_and_no_tool_are_no_failure(self) -> None:
        self.program("bin/nvidia-smi", "sys.exit('No devices were found')")
        self.program("build/gpu_kit/tests/kernel_bench", NO_GPU)
        for name in ("kernel", "model"):
            self.program(f"build/gpu_kit/tests/gpu_{name}_tests", GTEST.format(mark="SKIPPED"))
        self.assertEqual(self.call("tests")[0], 0)
        for step in ("kernel_tests", "model_tests", "replays", "kernels"):
            self.assertRegex(self.result("tests", step), r"not run \| \d+ \| no GPU: none")
        self.assertEqual(self.call("sanitize")[0], 0)
        self.assertIn("Device not supported", self.result("sanitize", "racecheck"))
        self.assertIn("0 errors", self.result("sanitize", "memcheck"))
        self.assertIn("ncu is not installed", self.result("sanitize", "counters_of_hydra"))

    def test_what_was_stopped_leaves_what_it_has(self) -> None:
        self.program("build/gpu_kit/tests/kernel_bench", HANGS)
        for how, code, result in (
            (signal.SIGTERM, 143, "stopped"), (signal.SIGKILL, -9, "running")
        ):  # fmt: skip
            process = self.start("tests")
            self.when_begun("tests", "replays")
            if how == signal.SIGKILL:  # nothing more is written: what the last step left
                result = ""
            process.send_signal(how)
            began = time.monotonic()
            process.communicate()
            self.assertLess(time.monotonic() - began, 20)
            self.assertEqual(process.returncode, code)
            self.assertIn("passed", self.result("tests", "kernel_tests"))
            self.assertIn(result, self.result("tests", "replays"))
        self.end_what_is_left()

    def end_what_is_left(self) -> None:
        """The step of a kit that was killed."""
        program = str(self.folder / "build/gpu_kit/tests/kernel_bench")
        for each in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if program.encode() in each.read_bytes():
                    os.kill(int(each.parent.name), signal.SIGKILL)
            except OSError:
                continue

    def test_the_time_is_kept_and_said(self) -> None:
        self.program("build/gpu_kit/tests/gpu_kernel_tests", HANGS)
        code, said = self.call("tests", "--seconds", "10")
        self.assertEqual(code, 1, said)
        self.assertIn("stopped", self.result("tests", "kernel_tests"))
        self.assertIn("no time was left", self.result("tests", "operators"))

    def test_a_long_log_is_cut_in_its_middle(self) -> None:
        self.program("build/gpu_kit/tests/gpu_model_tests", NOISE)
        self.call("tests")
        log = self.archive("tests")["model_tests.log"]
        self.assertLess(len(log), 1 << 20)
        self.assertTrue(log.startswith("first") and log.rstrip().endswith("last"))

    def test_what_does_not_load_is_built_again(self) -> None:
        (self.folder / "build/gpu_kit/tests/gpu_kernel_tests").unlink()
        code, said = self.call("tests")
        self.assertEqual(code, 1, said)
        self.assertIn("rebuilding", said)
        self.assertIn("passed", self.result("tests", "kernel_tests"))
        self.assertIn("Built.Here", self.archive("tests")["kernel_tests.log"])

    def test_wrong_usage(self) -> None:
        for words in (["nothing"], [], ["tests", "--seconds", "soon"], ["tests", "there"]):
            self.assertEqual(self.call(*words)[0], 2)
        self.assertEqual(self.call("make", "--pictures", str(self.folder))[0], 2)
