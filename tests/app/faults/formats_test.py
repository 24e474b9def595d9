"""Every command as a table and as JSON, and some in every format of their --format: csv is a table that Python's csv reads.

    formats_test.py PROGRAM [unittest's words]
"""

import csv
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[3]
TINY = SOURCE / "tests/corpus/states/0.1/tiny"
NUMBER = re.compile(r"-?[0-9]+([.,][0-9]+)?([eE][-+]?[0-9]+)?")
PROGRAM = ""

LOOK = ["-m", str(TINY), "--device", "cpu", "--precision", "float32", "--threads", "1"]
LEARN = ["-m", str(TINY), "--device", "cpu", "--batch-size", "2", "--held-out", "2", "--epochs", "1", "--threads", "1", "--set", "workers=1", "--force"]
# Each command as it is asked, and the columns that its table begins with.
COMMANDS = {
    "classify": (["classify", "set", "--recursive", *LOOK], "input"),
    "classify of odd names": (["classify", "odd, \"name\".ppm", "missing.jpg", *LOOK], "input"),
    "visualize": (["visualize", "set/0/0.ppm", "missing.jpg", *LOOK, "--save-raw"], "input"),
    "evaluate": (["evaluate", "set", *LOOK], "top1"),
    "evaluate with its classes": (["evaluate", "set", *LOOK, "--per-class", "-"], "class,id,label"),
    "embed": (["embed", "set", "--recursive", *LOOK, "-o", "new.safetensors"], ""),
    "search": (["search", "store.safetensors", "set", "--recursive", *LOOK], "input"),
    "compare": (["compare", "set", *LOOK, "--against-attn", "hydra"], "top1"),
    "faithfulness": (["faithfulness", "set", *LOOK, "--set", "steps=2", "--method", "rollout"], "model"),
    "diagnose": (["diagnose", "set", *LOOK[:4], "--against-attn", "hydra"], "layer"),
    "benchmark": (["benchmark", *LOOK, "--set", "iters=1", "--set", "warmup=0"], "model"),
    "models list": (["models", "list"], "kind,name,summary,aliases"),
    "models": (["models"], "kind,name,summary,aliases"),
    "models info of a model": (["models", "info", "deit_tiny_patch16_224.softmax"], "model"),
    "models info of an architecture": (["models", "info", "deit_tiny_patch16_224"], "model"),
    "models info of a mechanism": (["models", "info", "hedgehog"], "mechanism"),
    "models info of a rule": (["models", "info", "alibi"], "rule"),
    "models info of a file": (["models", "info", str(TINY)], "name,dtype,shape,bytes"),
    "models info --verify": (["models", "info", "nan.safetensors", "--verify"], "name,dtype,shape,bytes"),
    "models classes": (["models", "classes"], "index,id,label,scene,groups"),
    "doctor": (["doctor"], "version"),
    "doctor --self-test": (["doctor", "--self-test"], ""),
    "train": (["train", "set", *LEARN, "-o", "run"], ""),
    "convert": (["convert", "--attn", "hydra", "-i", "set", "-o", "new.safetensors", "--set", "steps-outputs=1", *LEARN], ""),
}
CODES = {"models info --verify": 4, "classify of odd names": 3, "visualize": 3}
# One writer makes the formats of all commands: records as they come, and tables at the end, are asked for in each.
IN_EVERY_FORMAT = {"classify of odd names", "evaluate with its classes", "models list", "models info --verify"}


class Formats(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        for number in range(8):
            file = self.folder / "set" / "01"[number % 2] / f"{number}.ppm"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"P6\n40 32\n255\n" + bytes((place * 5 + number * 37) % 256 for place in range(40 * 32 * 3)))
        shutil.copy(self.folder / "set/0/0.ppm", self.folder / 'odd, "name".ppm')
        weights = bytearray((TINY / "model.safetensors").read_bytes())
        weights[-4:] = b"\0\0\xc0\x7f"
        (self.folder / "nan.safetensors").write_bytes(weights)
        shutil.copy(TINY / "config.json", self.folder / "config.json")

    def run_program(self, *words):
        return subprocess.run([PROGRAM, *words], cwd=self.folder, env=dict(os.environ, OMP_WAIT_POLICY="passive", LC_ALL="de_DE.UTF-8"),
                              capture_output=True, text=True, timeout=240, check=False)

    def formats_of(self, command):
        """The formats that its help lists; nothing where it has no --format."""
        said = " ".join(self.run_program("help", *command.split()).stdout.split())
        _, found, rest = said.partition("--format FORMAT")
        listed = re.search(r"[(;] ?((?:[a-z]+, )+[a-z]+); default: text", rest)
        return listed[1].split(", ") if found else []

    def check_table(self, text, begin):
        """A header and rows of as many cells."""
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
        self.assertGreater(len(rows), 1, text)
        header = rows[0]
        self.assertTrue(",".join(header).startswith(begin), header)
        self.assertEqual(len(set(header)), len(header), header)
        self.assertNotIn("", header)
        for row in rows:
            self.assertEqual(len(row), len(header), row)
        for row in rows[1:]:
            for cell in row:
                self.assertFalse(NUMBER.fullmatch(cell) and "," in cell, f"a decimal comma: {cell}")

    def check(self, name, format_name):
        words, begin = COMMANDS[name]
        done = self.run_program(*words, "--format", format_name)
        self.assertEqual(done.returncode, CODES.get(name, 0), done.stderr)
        self.assertTrue(done.stdout.strip(), done.stderr)
        if format_name == "csv":
            self.check_table(done.stdout, begin)
        elif format_name == "html":
            self.assertTrue(done.stdout.startswith("<!doctype html>"), done.stdout[:99])
        elif format_name == "json":
            json.loads(done.stdout)
        elif format_name == "jsonl":
            for line in done.stdout.splitlines():
                json.loads(line)

    def test_all_that_help_lists(self):
        for name in ("before", "after"):
            done = self.run_program("benchmark", *LOOK, "--set", "iters=1", "--set", "warmup=0", "--img-size", "32,64", "-o", name + ".json")
            self.assertEqual(done.returncode, 0, done.stderr)
        done = self.run_program("embed", "set", "--recursive", *LOOK, "-o", "store.safetensors")
        self.assertEqual(done.returncode, 0, done.stderr)
        for name, (words, _) in COMMANDS.items():
            formats = self.formats_of(words[0])
            self.assertIn("csv", formats, name)
            for format_name in formats if name in IN_EVERY_FORMAT else ("csv", "json"):
                with self.subTest(f"{name} --format {format_name}"):
                    self.check(name, format_name)

    def test_no_command_is_forgotten(self):
        listed = re.findall(r"^  ([a-z]+) ", self.run_program("help").stdout, re.MULTILINE)
        self.assertIn("classify", listed)
        with_formats = {command for command in listed if self.formats_of(command)}
        self.assertEqual(with_formats, {words[0] for words, _ in COMMANDS.values()})

    def test_other_formats_are_refused_with_the_list(self):
        for command in sorted({words[0] for words, _ in COMMANDS.values()}):
            for other in ("xml", "html", "CSV"):
                if other in self.formats_of(command):
                    continue
                done = self.run_program(command, "--format", other)
                self.assertEqual(done.returncode, 2, command)
                self.assertIn("text, json, jsonl, csv", done.stderr.replace(" or ", ", "))

    def test_notes_go_to_standard_error(self):
        done = self.run_program("models", "info", "nan.safetensors", "--verify", "--format", "csv")
        self.assertIn("is not finite", done.stderr)
        self.assertNotIn("finite", done.stdout)


if __name__ == "__main__":
    PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
