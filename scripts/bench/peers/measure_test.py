"""Tests of measure.py without any peer. Standard library only."""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

import cpu_peers
import measure
import table
from pretended import Pretended

FAKE = """
words = sys.argv[1:]
if words[0] == "doctor":
    print(json.dumps({"version": "9", "commit": "abc"}))
    sys.exit()
options = dict(word.split("=", 1) for word in words if "=" in word)
if options["--precision"] == "int8":
    sys.exit("error: cannot use 'int8' (--precision)\\nhint: float32")
print(json.dumps({"schema": 1, "header": {"commit": "abc"}}))
bundled = options["--model"].partition(".")[2]  # has its attention
if bundled:
    assert "--attn" not in options
print(json.dumps({
    "precision": options["--precision"], "batch": int(options["--batch-size"]),
    "img_size": [int(side) for side in options["--img-size"].split("x")],
    "attention": bundled or options["--attn"], "pct_of_peak": 61.5, "kernels": "auto", "ms_p50": 4.0, "ms_mean": 4.0,
    "iterations": 5, "warmup": 1, "peak_memory_bytes": 1000000}))
"""


class Run(Pretended):
    def arguments(self, *words: str) -> argparse.Namespace:
        program = self.program("hydrascope", FAKE)
        paths = ["--hydrascope", str(program), "--out", str(self.folder)]
        # An interpreter without the peers stands for "could not be installed".
        return measure.parse([*paths, "--python", "/bin/false", *words])

    def test_contenders_that_are_missing_or_fail_are_reported(self) -> None:
        words = ("--rounds=2", "--only", "1920.*hedgehog|b32 softmax$")
        measure.Comparison(self.arguments(*words)).run()
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

    @unittest.skipUnless("HYDRASCOPE_PROGRAM" in os.environ, "needs HYDRASCOPE_PROGRAM")
    def test_the_program_understands_what_it_is_asked(self) -> None:
        arguments = self.arguments(
            "quick", "--only", "Ti 224.*b1 ", "--contenders", "hydrascope-fp32", "--rounds=1", "--duration=0.05"
        )
        arguments.hydrascope = pathlib.Path(os.environ["HYDRASCOPE_PROGRAM"])
        measure.Comparison(arguments).run()
        result = json.loads((self.folder / "peers.json").read_text(encoding="utf-8"))
        record = result["items"][0]["results"]["hydrascope-fp32"]
        self.assertEqual(record["summary"]["ms"]["rounds"], 1, record)

    def test_a_program_that_is_not_there_is_not_fatal(self) -> None:
        arguments = self.arguments("--only", "b32")
        arguments.hydrascope.unlink()
        comparison = measure.Comparison(arguments)
        comparison.run()
        message = comparison.result["items"][0]["results"]["hydrascope-fp32"]["message"]
        self.assertIn("cannot be started", message)

    def test_another_precision_than_asked_for_is_a_failure(self) -> None:
        row = {"precision": "float32", "img_size": [224, 224], "batch": 1, "attention": "softmax"}
        with self.assertRaisesRegex(measure.Failure, "instead of"):
            measure.turn_of(row, measure.ITEMS[0], "bfloat16")

    def test_work_that_no_contender_does_is_no_error(self) -> None:
        words = ("quick", "--only", "hedgehog", "--contenders", "timm")
        measure.Comparison(self.arguments(*words)).run()
        text = (self.folder / "peers.md").read_text(encoding="utf-8")
        self.assertNotIn("|", text)  # no table

    def test_a_preset_names_work_rounds_and_minutes_and_only_takes_other_work(self) -> None:
        given = self.arguments("quick")
        self.assertEqual((given.rounds, given.minutes, given.only), (2, 15, measure.PRESETS["quick"].items))
        given = self.arguments()
        self.assertEqual((given.rounds, given.minutes), (3, 60))
        given = self.arguments("quick", "--only", "DeiT-B", "--rounds", "1")
        self.assertEqual((given.rounds, given.only), (1, "DeiT-B"))
        self.assertEqual(self.arguments("--only", "DeiT-B").rounds, measure.PRESETS["all"].rounds)

    def test_rounds_end_with_the_minutes(self) -> None:
        slow = self.program("slow", "time.sleep(0.5)\n" + FAKE)
        words = ("quick", "--only", "Ti 224.*b1 ", "--contenders", "hydrascope-fp32", "--hydrascope", str(slow))
        measure.Comparison(self.arguments(*words, "--rounds=9", "--minutes=0.04")).run()
        result = json.loads((self.folder / "peers.json").read_text(encoding="utf-8"))
        rounds = result["items"][0]["results"]["hydrascope-fp32"]["rounds"]
        self.assertTrue(1 <= len(rounds) < 9)
        self.assertEqual(result["header"]["rounds"], len(rounds))

    def test_a_run_that_is_ended_keeps_its_rounds_and_removes_its_models(self) -> None:
        file = self.folder / "asked"
        once = f"if 'benchmark' in sys.argv and not os.path.exists({str(file)!r}):\n    open({str(file)!r}, 'w').close()\n"
        waits = "elif 'benchmark' in sys.argv:\n    time.sleep(60)\n"
        program = self.program("waits", once + waits + FAKE)
        command = [sys.executable, "-B", str(measure.HERE / "measure.py"), "--only", "Ti 224.*b1 ", "--rounds=2"]
        command += ["--contenders=hydrascope-fp32", "--out", str(self.folder), "--hydrascope", str(program)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            for line in process.stderr:
                if "round 1" in line:
                    break
            process.terminate()
            self.assertIn("interrupted", process.stderr.read())
        self.assertEqual(process.returncode, 130)
        result = json.loads((self.folder / "peers.json").read_text(encoding="utf-8"))
        self.assertEqual(len(result["items"][0]["results"]["hydrascope-fp32"]["rounds"]), 1)
        self.assertIn("- interrupted: not all rounds", (self.folder / "peers.md").read_text(encoding="utf-8"))
        self.assertEqual(list(self.folder.glob("models-*")), [])

    def test_turns_say_what_else_the_machine_did(self) -> None:
        measure.Comparison(self.arguments("quick", "--contenders", "hydrascope-fp32")).run()
        turn = json.loads((self.folder / "peers.json").read_text())["items"][0]["results"]["hydrascope-fp32"]["rounds"][0]
        for key in ("steal_percent", "others_percent"):
            self.assertTrue(0 <= turn[key] <= 100, turn)

    def test_the_share_of_the_product_rate_is_kept(self) -> None:
        measure.Comparison(self.arguments("quick", "--only", "Ti 224.*b1 ", "--contenders", "fp32")).run()
        results = json.loads((self.folder / "peers.json").read_text())["items"][0]["results"]
        self.assertEqual(results["hydrascope-fp32"]["rounds"][0]["pct_of_peak"], 61.5)
        self.assertEqual(results["hydrascope-fp32"]["summary"]["percent_of_rate"], 61.5)
        older = {"precision": "float32", "img_size": [224, 224], "batch": 1, "attention": "softmax", "kernels": "fused"}
        times = {"ms_p50": 1.0, "ms_mean": 1.0, "iterations": 1, "warmup": 1, "peak_memory_bytes": 1}
        self.assertNotIn("pct_of_peak", measure.turn_of(older | times, measure.ITEMS[0], "float32"))

    def test_windows_are_those_of_the_bundled_model_and_no_peer_has_them(self) -> None:
        measure.Comparison(self.arguments("--only", "Ti 1088.*(window|hedgehog)", "--rounds=1")).run()
        items = json.loads((self.folder / "peers.json").read_text())["items"]
        self.assertEqual([item["attention"] for item in items], ["hedgehog", "window"])
        for item in items:
            self.assertEqual(sorted(item["results"]), ["hydrascope-bf16", "hydrascope-fp32", "hydrascope-int8"])
            self.assertEqual(item["results"]["hydrascope-fp32"]["message"], "")

    def measured(self, date: str, *words: str) -> measure.Json:
        comparison = measure.Comparison(self.arguments("--contenders", "hydrascope", "--rounds=1", *words))
        comparison.run()
        comparison.result["header"]["date"] = date
        return comparison.result

    def test_merged_results_hold_the_newest_of_every_work(self) -> None:
        old = self.measured("2026-01-01", "--only", "Ti 1088x1920 b1 (softmax|hydra)")
        new = self.measured("2026-01-02", "--only", "Ti 1088x1920 b1 (hydra|window)")
        for result, ms in ((old, 8.0), (new, 2.0)):
            result["header"]["versions"]["hydrascope"] = f"of {ms}"
            for item in result["items"]:
                item["results"]["hydrascope-fp32"]["rounds"][0]["ms_p50"] = ms
        merged = measure.merge([new, old])
        table.summarise(merged)
        found = {item["attention"]: item["results"]["hydrascope-fp32"]["summary"]["ms"]["median"] for item in merged["items"]}
        self.assertEqual(found, {"softmax": 8, "hydra": 2, "window": 2})
        self.assertEqual(merged["header"]["date"], "2026-01-01")
        text = table.markdown([merged])
        names = "DeiT-Ti 1088x1920 b1 hydra; DeiT-Ti 1088x1920 b1 window"
        self.assertIn(f"- measured in another run, 2026-01-02, rounds 1, hydrascope of 2.0: {names}\n", text)

    def test_runs_that_cannot_be_compared_are_not_merged(self) -> None:
        old = self.measured("2026-01-01", "--only", "Ti 1088x1920 b1 hydra")
        new = self.measured("2026-01-02", "--only", "Ti 1088x1920 b1 hydra", "--contenders", "hydrascope-fp32")
        with self.assertRaisesRegex(measure.Failure, "b1 hydra: the newer run lacks hydrascope-bf16, hydrascope-int8"):
            measure.merge([old, new])
        new = self.measured("2026-01-02", "--only", "Ti 1088x1920 b1 hydra", "--threads=1")
        with self.assertRaisesRegex(measure.Failure, "runs with threads 2 and 1 cannot be merged"):
            measure.merge([old, new])

    def test_results_are_merged_on_the_command_line(self) -> None:
        files = []
        for date, work in (("2026-01-01", "hydra"), ("2026-01-02", "window")):
            text = json.dumps(self.measured(date, "--only", f"Ti 1088x1920 b1 {work}"))
            files.append(str(self.put(f"{work}.json", text)))
        command = [sys.executable, "-B", str(measure.HERE / "measure.py"), "--out", str(self.folder / "merged")]
        subprocess.run([*command, "--merge", *files], check=True)
        merged = json.loads((self.folder / "merged/peers.json").read_text())
        self.assertEqual([item["attention"] for item in merged["items"]], ["hydra", "window"])
        self.assertIn("DeiT-Ti 1088x1920 b1 window", (self.folder / "merged/peers.md").read_text())
        self.assertTrue((self.folder / "merged/peers.svg").exists())

    def test_pages_are_made_of_results(self) -> None:
        measure.Comparison(self.arguments("quick", "--contenders", "hydrascope-fp32")).run()
        text = (self.folder / "peers.md").read_text()
        again = self.folder / "again"
        again.mkdir()
        measure.render([json.loads((self.folder / "peers.json").read_text())], again, measure.FIGURE)
        self.assertEqual((again / "peers.md").read_text(), text)

    def test_training_is_compared_with_timms_softmax(self) -> None:
        measure.Comparison(self.arguments("--only", "train_step")).run()
        softmax, hydra = json.loads((self.folder / "peers.json").read_text())["items"]
        both = ["hydrascope-bf16", "hydrascope-fp32"]
        self.assertEqual(sorted(softmax["results"]), [*both, "timm-bf16", "timm-fp32"])
        self.assertEqual((sorted(hydra["results"]), hydra["stage"]), (both, "train_step"))


class Lists(unittest.TestCase):
    def test_names_are_unique_and_say_everything(self) -> None:
        for names in (
            [each.name for each in measure.ITEMS],
            [each.name for each in measure.CONTENDERS],
        ):
            self.assertEqual(len(names), len(set(names)))
        for each in measure.ITEMS:
            named = measure.item_named(each.name)
            self.assertEqual(
                (named.name, named.group, named.arch), (each.name, each.group, each.arch)
            )
        with self.assertRaises(argparse.ArgumentTypeError):
            measure.item_named("DeiT-Ti 224 softmax")

    def test_every_contender_is_known_to_the_peers_side(self) -> None:
        self.assertEqual(set(measure.PEER_KINDS), set(cpu_peers.OPEN))
        self.assertEqual(set(measure.PEER_KINDS), set(cpu_peers.PACKAGES))
        for preset in measure.PRESETS.values():
            self.assertTrue(any(re.search(preset.items, each.name) for each in measure.ITEMS))

    def test_every_attention_has_a_softmax_to_be_compared_with(self) -> None:
        softmax = {each.group for each in measure.ITEMS if each.attention == "softmax"}
        for each in measure.ITEMS:
            self.assertIn(each.group, softmax)
        self.assertEqual(table.OWN, "hydrascope")
