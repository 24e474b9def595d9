"""Tests of measure.py without any peer: `measure.py --self-test`. Standard library only."""

import argparse
import json
import tempfile
import unittest
from pathlib import Path

import measure
import table

FAKE = """#!/usr/bin/env python3
import json, sys
words = sys.argv[1:]
if words[0] == "doctor":
    print(json.dumps({"version": "9", "commit": "abc"}))
    sys.exit()
options = dict(zip(words[2::2], words[3::2]))
if options["--precision"] == "int8":
    sys.exit("error: cannot use 'int8' (--precision)\\nhint: float32")
print(json.dumps({"rows": [{
    "precision": options["--precision"], "batch": int(options["--batch-size"]),
    "img_size": [int(side) for side in options["--img-size"].split("x")],
    "attention": options["--attn"], "kernels": "auto", "ms_p50": 4.0, "ms_mean": 4.0,
    "iterations": 5, "warmup": 1, "peak_memory_bytes": 1000000}]}))
"""


class Run(unittest.TestCase):
    def setUp(self) -> None:
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.folder = Path(kept.name)
        self.program = self.folder / "hydrascope"
        self.program.write_text(FAKE, encoding="utf-8")
        self.program.chmod(0o755)
        self.addCleanup(setattr, measure, "say", measure.say)
        measure.say = lambda text: None

    def arguments(self, *words: str) -> argparse.Namespace:
        paths = ["--hydrascope", str(self.program), "--out", str(self.folder)]
        # An interpreter without the peers stands for "could not be installed".
        return measure.parse([*paths, "--python", "/bin/false", *words])

    def test_contenders_that_are_missing_or_fail_are_reported(self) -> None:
        comparison = measure.Comparison(self.arguments("--quick", "--only", "1920.*hedgehog|b32"))
        comparison.run()
        result = json.loads((self.folder / "peers.json").read_text(encoding="utf-8"))
        batch, hedgehog = result["items"][0]["results"], result["items"][1]["results"]
        self.assertEqual(len(result["items"]), 3)
        self.assertEqual(batch["hydrascope-fp32"]["summary"]["ms"]["rounds"], 2)
        self.assertEqual(batch["hydrascope-fp32"]["summary"]["images_per_second"], 8000)
        self.assertIn("not installed", batch["timm-fp32"]["message"])
        self.assertEqual(batch["hydrascope-int8"]["message"], "cannot use 'int8' (--precision)")
        self.assertEqual(
            sorted(hedgehog), ["hydrascope-bf16", "hydrascope-fp32", "hydrascope-int8"]
        )
        text = (self.folder / "peers.md").read_text(encoding="utf-8")
        self.assertIn("- hydrascope int8: cannot use 'int8' (--precision) (everywhere)", text)

    def test_a_program_that_is_not_there_is_not_fatal(self) -> None:
        self.program.unlink()
        comparison = measure.Comparison(self.arguments("--quick", "--only", "b32"))
        comparison.run()
        message = comparison.result["items"][0]["results"]["hydrascope-fp32"]["message"]
        self.assertIn("cannot be started", message)

    def test_another_precision_than_asked_for_is_a_failure(self) -> None:
        row = {"precision": "float32", "img_size": [224, 224], "batch": 1, "attention": "softmax"}
        with self.assertRaisesRegex(measure.Failure, "instead of"):
            measure.hydrascope_turn({"rows": [row]}, measure.ITEMS[0], "bfloat16")


class Lists(unittest.TestCase):
    def test_names_are_unique(self) -> None:
        for names in (
            [each.name for each in measure.ITEMS],
            [each.name for each in measure.CONTENDERS],
        ):
            self.assertEqual(len(names), len(set(names)))

    def test_hedgehog_has_a_softmax_to_be_compared_with(self) -> None:
        softmax = {measure.group_of(e) for e in measure.ITEMS if e.attention == "softmax"}
        for each in measure.ITEMS:
            self.assertIn(measure.group_of(each), softmax)

    def test_errors_are_one_line(self) -> None:
        self.assertEqual(measure.last_line("a\nerror: b\nhint: c\n"), "b")
        self.assertEqual(measure.last_line(""), "no message")
        self.assertEqual(table.OWN, "hydrascope")
