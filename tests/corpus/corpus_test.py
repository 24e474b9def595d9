"""Runs the program over the corpus and compares it with what other programs say: expected.jsonl (README.md).

    python tests/corpus/corpus_test.py PROGRAM [TEST...]

Standard library only. Ends with 77 where there is nothing to test with.
"""

import array
import concurrent.futures
import json
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path

CORPUS = Path(__file__).resolve().parent
ROWS = [json.loads(line) for line in (CORPUS / "expected.jsonl").read_text().splitlines()]
PICTURES = [row for row in ROWS if row["kind"] == "picture"]
WEIGHTS = [row for row in ROWS if row["kind"] == "weights"]
SECONDS = 240  # for any run; the slowest takes some 5
SAME = ["--device", "cpu", "--precision", "float32", "--threads", "1", "--format", "jsonl"]
BYTES = ["--set", "mean=0,0,0", "--set", "std=1,1,1"]  # the model's input is pixels / 255
SQUASHED = 32  # edge of the answers for large pictures
# Two steps of 255 and a third on average: two decoders of lossy pictures, and two roundings of Pillow's filter.
SQUASHED_TOLERANCE, SQUASHED_MEAN = 2.5, 0.35
INPUTS = ["weights/inputs/square.png", "weights/inputs/wide.png"]  # of the logits
PROGRAM = ""


def run(*words: str | Path, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, *map(str, words)], cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)


def records(done: subprocess.CompletedProcess[str]) -> list[dict]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def npy(file: Path) -> tuple[list[int], array.array]:
    """Shape and values of the float32 that the program writes."""
    data = file.read_bytes()
    (length,) = struct.unpack_from("<H", data, 8)
    header = data[10 : 10 + length].decode()
    shape = [int(size) for size in header.partition("(")[2].partition(")")[0].split(",") if size.strip()]
    return shape, array.array("f", data[10 + length :])


@cache
def answers() -> dict[str, tuple[list[int], array.array]]:
    """Shape and values of every tensor of answers.safetensors."""
    data = (CORPUS / "answers.safetensors").read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    kinds = {"U8": "B", "F32": "f"}
    return {
        name: (at["shape"], array.array(kinds[at["dtype"]], data[8 + length :][slice(*at["data_offsets"])]))
        for name, at in header.items()
    }


@cache
def has_opencv() -> bool:
    return json.loads(run("doctor", "--format", "json").stdout)["decoder"].startswith("OpenCV")


def tolerance(row: dict) -> int:
    """Grey levels; negative where this build does not read the format."""
    return row["tolerance"][0 if has_opencv() else 1]


def planes(pixels: array.array, height: int, width: int) -> list[list[int]]:
    """Rows of each channel, channels first, of interleaved pixels."""
    row = width * 3
    return [list(pixels[y * row + c : (y + 1) * row : 3]) for c in range(3) for y in range(height)]


class Pictures(unittest.TestCase):
    """Decoded pixels against Pillow's; what is no picture is one record with its code."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))

    def compare(self, row: dict, got: array.array, size: tuple[int, int], most: float, mean: float) -> None:
        """`got`: (3, H, W) of pixels / 255, at least as large as `size`, H x W, which it begins with."""
        (height, width, _), expected = answers()[row["file"]]
        worst, total = 0.0, 0.0
        for i, wanted in enumerate(planes(expected, height, width)):
            channel, y = divmod(i, height)
            begin = (channel * size[0] + y) * size[1]
            for a, b in zip(got[begin : begin + width], wanted):
                difference = abs(a * 255 - b)
                worst, total = max(worst, difference), total + difference
        self.assertLessEqual(worst, most + 1e-3)
        self.assertLessEqual(total / (3 * height * width), mean + 1e-3)

    def test_all_in_one_run(self) -> None:
        """Whatever lies between them: every picture has its record, every broken one its code."""
        done = run(
            "classify", *(row["file"] for row in PICTURES), "-m", "states/0.1/tiny", "--img-size", SQUASHED, "--set",
            "crop-mode=squash", "--set", "crop-pct=1", "--set", "interpolation=bicubic", *BYTES, "--save-input", self.folder / "all.npy", *SAME,
            folder=CORPUS,
        )
        self.assertEqual(done.returncode, 3, done.stderr)
        found = records(done)
        self.assertEqual([record["input"] for record in found], [row["file"] for row in PICTURES])
        shape, values = npy(self.folder / "all.npy")
        self.assertEqual(shape, [len(PICTURES), 3, SQUASHED, SQUASHED])
        for i, (row, record) in enumerate(zip(PICTURES, found)):
            with self.subTest(row["file"]):
                error = record.get("error")
                if row.get("error") == "any":
                    continue
                if "error" in row or tolerance(row) < 0:
                    code = row.get("error", "unsupported_format")
                    self.assertIsNotNone(error, f"{code} expected")
                    # A decoder that does not know the format cannot say what is wrong with a file of it.
                    codes = {code} if has_opencv() else {code, "unsupported_format", "decode_failed"}
                    self.assertIn(error["code"], codes, error)
                    self.assertNotIn("\n", error["message"])
                    self.assertLess(len(error["message"]), 500)
                    continue
                self.assertIsNone(error)
                if row.get("as") == "squashed":
                    part = values[i * 3 * SQUASHED**2 : (i + 1) * 3 * SQUASHED**2]
                    self.compare(row, part, (SQUASHED, SQUASHED), SQUASHED_TOLERANCE, SQUASHED_MEAN)

    def test_pixels(self) -> None:
        groups = defaultdict(list)
        for row in PICTURES:
            if row["file"] in answers() and row.get("as") != "squashed" and tolerance(row) >= 0:
                groups[tuple(answers()[row["file"]][0][:2])].append(row)
        self.assertGreater(sum(map(len, groups.values())), 50)
        for size, rows in groups.items():
            file = self.folder / "pixels.npy"
            done = run("classify", *(row["file"] for row in rows), "-m", "states/0.1/tiny", "--native", *BYTES, "--save-input", file,
                       *SAME, folder=CORPUS)
            self.assertIn(done.returncode, (0, 3), done.stderr)
            shape, values = npy(file)
            self.assertGreaterEqual(shape[2:], list(size))
            for i, (row, record) in enumerate(zip(rows, records(done), strict=True)):
                with self.subTest(row["file"]):
                    self.assertNotIn("error", record)
                    length = 3 * shape[2] * shape[3]
                    self.compare(row, values[i * length : (i + 1) * length], shape[2:], tolerance(row), tolerance(row))


class Weights(unittest.TestCase):
    """Logits of files that others wrote against theirs; what is no model is one line."""

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def classify(self, rows: list[dict], pictures: Callable[[dict], list[str]], *more: str) -> list[tuple[int, dict, subprocess.CompletedProcess[str]]]:
        """A run for each row, two at a time; its logits, and for one picture its input, are NUMBER.{logits,input}.npy."""

        def one(number: int, row: dict) -> tuple[int, dict, subprocess.CompletedProcess[str]]:
            files = [f"--save-{what}={self.folder / f'{number}.{what}.npy'}" for what in ("logits", "input")]
            saved = files if len(pictures(row)) == 1 else files[:1]  # arrays have rows of one shape
            words = [*pictures(row), "-m", row["file"], *more, *row.get("arguments", "").split(), *saved, *SAME]
            return number, row, run("classify", *words, folder=CORPUS)

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            return list(pool.map(one, range(len(rows)), rows))

    def test_logits_are_the_writers(self) -> None:
        rows = [row for row in WEIGHTS if "logits" in row]
        self.assertGreater(len(rows), 20)
        for number, row, outcome in self.classify(rows, lambda _: INPUTS, "--native"):
            with self.subTest(row["file"] + " " + row["arguments"]):
                self.assertEqual(outcome.returncode, 0, outcome.stderr)
                self.assertNotIn("newly initialised", outcome.stderr)
                self.assertNotIn("not used", outcome.stderr)
                shape, logits = npy(self.folder / f"{number}.logits.npy")
                expected = [value for picture in row["logits"] for value in picture]
                self.assertEqual(shape, [2, len(row["logits"][0])])
                # float32 against float64, in units of what the writer's own float32 is away.
                most = max(10 * row["float32_error"], 5e-6)
                self.assertLess(max(abs(a - b) for a, b in zip(logits, expected)), most)

    def test_pictures_are_prepared_as_the_processor_does(self) -> None:
        rows = [row for row in WEIGHTS if "processed" in row]
        self.assertGreater(len(rows), 8)
        for number, row, outcome in self.classify(rows, lambda row: [row["processed"]]):
            with self.subTest(row["file"]):
                self.assertEqual(outcome.returncode, 0, outcome.stderr)
                std = json.loads((CORPUS / row["file"] / "preprocessor_config.json").read_text())["image_std"]
                shape, expected = answers()[row["file"]]
                found_shape, found = npy(self.folder / f"{number}.input.npy")
                self.assertEqual(found_shape, [1, *shape])
                # Pillow and torchvision, whichever the image processor uses: within two steps of 255.
                self.assertLess(max(abs(a - b) for a, b in zip(found, expected)), 2.01 / 255 / min(std))

    def test_what_is_no_model_is_one_line(self) -> None:
        rows = [row for row in WEIGHTS if "error" in row]
        self.assertGreater(len(rows), 15)
        for _, row, outcome in self.classify(rows, lambda _: INPUTS[:1]):
            with self.subTest(row["file"]):
                self.assertIn(outcome.returncode, (1, 2), outcome.stderr)
                first, *rest = outcome.stderr.splitlines()
                self.assertTrue(first.startswith("error: "), outcome.stderr)
                self.assertIn(Path(row["file"]).name, first)
                self.assertIn(row["error"], first)
                self.assertLess(len(first), 600)
                self.assertTrue(not rest or (len(rest) == 1 and rest[0].startswith("hint: ")), outcome.stderr)
        self.assertFalse(list(CORPUS.rglob("hydrascope_executed_a_pickle")), "a pickle was executed")


class States(unittest.TestCase):
    """Runs that an earlier version began go on."""

    def test_runs_go_on(self) -> None:
        rows = [row for row in ROWS if row["kind"] == "state"]
        self.assertGreaterEqual(len(rows), 2)
        for row in rows:
            with self.subTest(row["arguments"]), tempfile.TemporaryDirectory() as name:
                folder = Path(name) / "run"
                shutil.copytree(CORPUS / row["file"], folder)
                (folder / "classes.txt").write_text("a\nb\n")
                for number in range(4):
                    path = folder / "set" / "ab"[number % 2] / f"{number}.ppm"
                    path.parent.mkdir(parents=True, exist_ok=True)
                    pixels = (channel for y in range(32) for x in range(40) for channel in (x * 5 + number, y * 3 + number * 7, x + y + number * 31))
                    path.write_bytes(b"P6\n40 32\n255\n" + bytes(value % 256 for value in pixels))
                done = run(*row["arguments"].split(), "--threads", "1", "--device", "cpu", "--resume", "auto", folder=folder)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(row["says"], done.stderr)
                if "result" in row:
                    result = json.loads(done.stdout)
                    self.assertEqual({key: result.get(key) for key in row["result"]}, row["result"])


class Corpus(unittest.TestCase):
    def test_is_whole_and_small(self) -> None:
        size = sum(file.stat().st_size for file in CORPUS.rglob("*") if file.is_file())
        self.assertLess(size, 10_000_000)
        for row in ROWS:
            self.assertTrue((CORPUS / row["file"]).exists(), row["file"])
        listed = {row["file"] for row in PICTURES}
        there = {str(file.relative_to(CORPUS)) for file in (CORPUS / "pictures").rglob("*") if file.is_file()}
        self.assertEqual(listed, there)
        self.assertLessEqual({row["file"] for row in PICTURES if "tolerance" in row}, set(answers()))


if __name__ == "__main__":
    PROGRAM = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
