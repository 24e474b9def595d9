"""Tests of gpu_measure.py with programs that only pretend."""

import json

import gpu_measure as measure
import gpu_targets as targets
from pretended import Pretended

HYDRASCOPE = """
words = sys.argv[1:]
options = dict(word.split("=", 1) for word in words if "=" in word)
if words[0] != "benchmark":
    names = dict(zip(words, words[1:]))
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }".encode()
    data = b"\\x93NUMPY\\x01\\x00" + len(head).to_bytes(2, "little") + head
    rates = [1.0, 2.0] if names["--precision"] == "float32" else [1.1, 2.0]
    with open(names["--save-logits"], "wb") as file:
        file.write(data + struct.pack("<2f", *rates))
    sys.exit()
print(json.dumps({"schema": 1, "header": {"commit": "abc"}}))
size = [int(side) for side in options.get("--img-size", "1080x1920").split("x")]
for attention in options.get("--attn", "softmax,hydra").split(","):
    for batch in options.get("--batch-size", "1").split(","):
        rate = {"hydra": 400.0, "softmax": 150.0, "hedgehog": 300.0}[attention]
        row = {"model": "m", "attention": attention, "img_size": (size * 2)[:2],
               "batch": int(batch), "precision": "bfloat16", "kernels": "fused", "tokens": 10,
               "images_per_second": rate + int(batch), "ms_p50": 1e3 * int(batch) / rate,
               "ms_p90": 9.0, "iterations": 5, "peak_memory_bytes": 1, "gflops_per_image": 1390.0,
               "peak_tflops_measured": 700.0, "error": ""}
        if batch == "16":
            row |= {"error": "out_of_memory", "images_per_second": 0}
        print(json.dumps(row), flush=True)
"""

KERNEL_BENCH = """
for cache in ("cold", "warm"):
    print(json.dumps({"kernel": "hedgehog forward", "shape": "B 1, N 32768", "cache": cache,
                      "us_median": 1000.0}))
"""

WORKER = """
for line in sys.stdin:
    job = json.loads(line)
    if job["do"] == "gpu":
        reply = {"versions": {"torch": "2"}, "gpu": "pretended"}
    elif job["do"] == "matrix_rate":
        reply = {"tflops": 780.0}
    elif job["do"] == "sdpa":
        reply = {"ms_p50": {"flash": 9.0, "cudnn": 7.0}.get(job["backend"])}
        if reply["ms_p50"] is None:
            reply = {"error": "RuntimeError: No available kernel"}
    elif job.get("compile") and job["batch"] == 256:
        time.sleep(60)
    else:
        rate = 100.0 + 10 * (job.get("backend") == "cudnn") + 20 * bool(job.get("compile"))
        reply = {"images_per_second": rate, "ms_p50": 1e3 * job["batch"] / rate}
    print(json.dumps(reply), flush=True)
"""

NO_GPU_WORKER = """
for line in sys.stdin:
    print(json.dumps({"error": "torch sees no GPU"}), flush=True)
"""

CRASH = """
sys.exit("error: CUDA says: no")
"""


class WholeRun(Pretended):
    def measuring(self, worker: str, bench: str = KERNEL_BENCH) -> measure.Run:
        arguments = measure.parse(
            [
                "--hydrascope", str(self.program("hydrascope", HYDRASCOPE)),
                "--kernel-bench", str(self.program("kernel_bench", bench)),
                "--worker", str(self.program("worker.py", worker)),
                "--out", str(self.folder), "--images", str(self.folder),
                "--compile-limit", "1", "--rounds", "2",
            ]
        )  # fmt: skip
        found = measure.Run(arguments)
        self.addCleanup(found.worker.end)
        return found

    def model(self) -> measure.Json:
        found: measure.Json = json.loads((self.folder / measure.RESULT).read_text(encoding="utf-8"))
        return found

    def test_every_step_measures_and_the_targets_follow(self) -> None:
        self.assertEqual(self.measuring(WORKER).run(), 0)
        model = self.model()
        self.assertEqual(model["header"]["hydrascope"], {"commit": "abc"})
        ratios = [row["ratio"] for row in targets.table(targets.Measured([], model, {}))[3:9]]
        self.assertEqual(ratios[0], 7.0)  # cudnn's 7 ms over 1 ms
        self.assertAlmostEqual(ratios[1], 408 * 1.39 / 780)
        self.assertAlmostEqual(ratios[2], 408 / 158)  # hydrascope's own softmax is the fastest
        self.assertAlmostEqual(ratios[3], (1e3 / 400) / (1e3 / 408))
        self.assertAlmostEqual(ratios[4], (150 + 256) / 100)
        self.assertEqual(ratios[5], 100.0)
        # What took too long was stopped, named, and measured without compiling instead.
        self.assertIn("took longer than 1 s", " ".join(model["remarks"]))
        self.assertEqual(list(model["turns"]["small"]), ["hydrascope", "plain torch, eager"])
        errors = [row["error"] for row in model["rows"] if row.get("error")]
        self.assertIn("out_of_memory", errors)
        self.assertIn("No available kernel", model["turns"]["hedgehog"]["efficient"]["message"])

    def test_no_gpu_is_told_from_a_failure(self) -> None:
        self.assertEqual(self.measuring(NO_GPU_WORKER).run(), measure.NO_GPU)

    def test_a_step_that_fails_does_not_lose_the_others(self) -> None:
        self.assertEqual(self.measuring("sys.exit('no torch here')", CRASH).run(), 1)
        model = self.model()
        remarks = "\n".join(model["remarks"])
        self.assertIn("PyTorch: its process ended: no torch here", remarks)
        self.assertIn("hedgehog against fused softmax: CUDA says: no", remarks)
        self.assertTrue(targets.good(model["rows"], "hydrascope", "hydra", targets.LARGE))

    def test_what_the_time_does_not_allow_is_named(self) -> None:
        run = self.measuring(WORKER)
        run.clock.end = 0
        self.assertEqual(run.run(), 1)
        self.assertTrue(all("no time was left" in line for line in run.result["remarks"][1:]))
