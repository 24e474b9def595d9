"""Tests of gpu_measure.py with programs that only pretend."""

import json

import gpu_measure as measure
import gpu_targets as targets
from pretended import Pretended

HYDRASCOPE = """
words = sys.argv[1:]
options = dict(word.split("=", 1) for word in words if "=" in word)
if words[0] == "classify":
    for name, index in (("a.jpg", 1), ("b.jpg", 2)):
        index += "float32" in words and "cuda" in words and name == "b.jpg"
        print(json.dumps({"input": "/" + name, "top": [{"index": index, "logit": 8.0}]}))
    print(json.dumps({"input": "/images.csv", "error": {}}))
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
        reply = {"versions": {"torch": "2"}, "gpu": "NVIDIA H100 80GB HBM3"}
    elif job["do"] == "matrix_rate":
        reply = {"tflops": 780.0}
    elif job["do"] == "sdpa":
        reply = {"ms_p50": {"flash": 9.0, "cudnn": 7.0}.get(job["backend"])}
        if reply["ms_p50"] is None:
            reply = {"error": "RuntimeError: No available kernel"}
    elif job.get("compile") and job["batch"] == 256:
        time.sleep(60)
    else:
        rate = {"hydra": 200.0, "softmax": 100.0}[job["attention"]]
        rate += 10 * (job.get("backend") == "cudnn") + 20 * bool(job.get("compile"))
        rate += 30 * (job.get("compile") == "max-autotune")
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
                "--out", str(self.folder), "--images", str(self.folder), "--time-limit", "450",
            ]
        )  # fmt: skip
        self.put("images.csv", "file,class_index\na.jpg,1\nb.jpg,3\n")
        found = measure.Run(arguments, self.program("worker.py", worker))
        found.compile_limit, found.peer_limit, found.rounds = 1, 1, 2
        self.addCleanup(found.worker.end)
        return found

    def model(self) -> measure.Json:
        found: measure.Json = json.loads((self.folder / measure.RESULT).read_text(encoding="utf-8"))
        return found

    def test_every_step_measures_and_the_targets_follow(self) -> None:
        self.assertEqual(self.measuring(WORKER).run(), 0)
        model = self.model()
        self.assertEqual(model["header"]["hydrascope"], {"commit": "abc"})
        rows = {row["target"].split(" (")[0]: row["ratio"] for row in targets.table([], model)}
        self.assertAlmostEqual(rows["ahead of every peer"], 408 / 220)  # Hydra, compiled
        self.assertAlmostEqual(rows["2.4 times the fastest softmax"], 408 / 158)  # its own
        self.assertAlmostEqual(rows["what is expected"], 406 / 13000)
        self.assertAlmostEqual(rows["above 280"], 408 / 280)
        self.assertAlmostEqual(rows["above 145: softmax by FlashAttention-3"], 408 / 145)
        self.assertAlmostEqual(rows["above 12,000"], 406 / 12000)
        # The longest search is the fastest; what it takes too long for is named.
        every = "ahead of every peer, whatever its batch and mode"
        self.assertAlmostEqual(rows[every], 408 / 250)
        self.assertIn("peer softmax 224x224, batch 256, max-autotune: not run: took longer than 1 s",
                      model["remarks"])  # fmt: skip
        self.assertAlmostEqual(rows["80 % of the measured matrix rate"], 408 * 1.39 / 780)
        self.assertAlmostEqual(rows["level with timm and torch.compile"], (150 + 256) / 100)
        self.assertEqual(rows["6 times the fastest softmax"], 7.0)  # cudnn's 7 ms over 1 ms
        self.assertEqual(rows["same top-1 on 99 %"], 100.0)
        settings = model["agreement"]["settings"]
        self.assertEqual([each["same_top1"] for each in settings], [2, 2, 1])
        self.assertEqual([each["top1"] for each in settings], [50, 50, 100])
        # A run that took too long was stopped, named, and measured without compiling instead.
        self.assertIn("took longer than 1 s", " ".join(model["remarks"]))
        self.assertEqual(list(model["turns"]["small"]), ["hydrascope", "timm, eager"])
        asked = {row["setting"] for row in model["rows"] if row["who"] == "torch"}
        self.assertLessEqual(
            {"timm hydra, torch.compile", "timm softmax, cudnn, torch.compile",
             "timm softmax, math, eager"}, asked,
        )  # fmt: skip
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
        self.assertIn("hedgehog against softmax: CUDA says: no", remarks)
        self.assertTrue(targets.good(model["rows"], "hydrascope", "hydra", targets.LARGE))

    def test_what_the_time_does_not_allow_is_named(self) -> None:
        run = self.measuring(WORKER)
        run.clock.end = 0
        self.assertEqual(run.run(), 1)
        self.assertTrue(all("no time was left" in line for line in run.result["remarks"][1:]))
