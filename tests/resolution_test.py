"""scripts/make/make_scenes.py and scripts/measure/resolution.py without data and without a model.

Standard library only, but for the drawing of scenes: without Pillow the rest is tested and the exit code is 77.
"""

import contextlib
import csv
import hashlib
import io
import json
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "scripts" / "make"), str(ROOT / "scripts" / "measure")]

import make_scenes  # noqa: E402
import resolution  # noqa: E402
from make_scenes import Photograph, plan_scenes  # noqa: E402

try:
    from PIL import Image
except ModuleNotFoundError:
    Image = None

# Answers as the program does; every call is a line of the file `calls` beside it.
FAKE = """#!/usr/bin/env python3
import csv, json, pathlib, sys
words = sys.argv[1:]
with (pathlib.Path(sys.argv[0]).parent / "calls").open("a") as calls:
    print(*words, file=calls)
if words[0] == "doctor":
    print(json.dumps({"cpu": "a processor", "processors": 2, "commit": "abc"}))
    sys.exit()
if "tiles" in words:
    sys.exit("note: of no use\\nerror: cannot tile\\nhint: no")
if words[0] == "classify":
    for word in words:
        if word.endswith(".jpg"):
            labels = ["otter", "alp"] if "--native" in words else ["mink", "beaver"]
            box = {"left": 10, "top": 0, "width": 100, "height": 100}
            top = [{"rank": i + 1, "index": 7 + i, "label": label, "prob": 0.5, "box": box} for i, label in enumerate(labels)]
            print(json.dumps({"top": top, "things": [1, 2] if word.endswith("1.jpg") else [1]}))
    images = sum(word.endswith(".jpg") for word in words)
else:
    with open(words[words.index("--labels-csv") + 1], newline="") as file:
        images = len(list(csv.DictReader(file)))
    if "--limit-images" in words:
        images = min(images, int(words[words.index("--limit-images") + 1]))
    print(json.dumps({"top1": 75.0, "top5": 90.0, "images": images}))
print(f"timing: images={images} seconds={images / 20} model_seconds={images / 40} threads=2", file=sys.stderr)
"""


def photographs_of(count: int) -> list[Photograph]:
    return [Photograph(Path(f"{i}.jpg"), str(i)) for i in range(count)]


class Folder(unittest.TestCase):
    def setUp(self) -> None:
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.folder = Path(kept.name)

    def write_csv(self, name: str, rows: list[dict[str, str]]) -> Path:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        return file


class Plans(Folder):
    def test_the_seed_decides(self) -> None:
        backgrounds = [Path("a.jpg"), Path("b.jpg")]

        def plan(seed: int, count: int = 30) -> list[make_scenes.Scene]:
            return plan_scenes(photographs_of(30), backgrounds, ["150", "299", "600"], count, seed)

        self.assertEqual(plan(1), plan(1))
        self.assertEqual(plan(1, 10), plan(1)[:10])
        self.assertNotEqual([s.photograph for s in plan(1)], [s.photograph for s in plan(2)])
        self.assertNotEqual([s.across for s in plan(1)], [s.across for s in plan(2)])
        # Known values: another version of Python draws the same.
        self.assertEqual([s.photograph.label for s in plan(1)[:4]], ["14", "13", "1", "7"])
        self.assertAlmostEqual(plan(1)[0].across, 0.098878158258, places=12)
        shuffled = plan_scenes(photographs_of(30)[::-1], backgrounds, ["150", "299", "600"], 30, 1)
        self.assertEqual(shuffled, plan(1), "the order of a listing")

    def test_photographs_and_sizes_go_in_turns(self) -> None:
        scenes = plan_scenes(photographs_of(6), [Path("a.jpg")], ["150", "299", "600"], 18, 1)
        seen = [(scene.photograph.label, scene.size) for scene in scenes]
        self.assertEqual(len({label for label, _ in seen[:6]}), 6)
        self.assertEqual([size for _, size in seen[:6]], ["150", "299", "600"] * 2)
        self.assertEqual(len(set(seen)), 18, "each photograph in each size")
        self.assertEqual(len({scene.file for scene in scenes}), 18)

    def test_halves_of_the_backgrounds_share_nothing(self) -> None:
        for name in ["c.jpg", "a.png", "b.jpg", "e.jpg", "d.jpg", "notes.txt"]:
            (self.folder / name).touch()
        evaluation, train = ([file.name for file in make_scenes.backgrounds_of(self.folder, part)] for part in make_scenes.PARTS)
        self.assertEqual((train, evaluation), (["a.png", "c.jpg", "e.jpg"], ["b.jpg", "d.jpg"]))

    def test_finds_evaluation_photographs_under_other_names(self) -> None:
        for name, content in (("eval/a.jpg", "1"), ("train/n00000001/b.jpg", "2"), ("train/n00000001/c.jpg", "1")):
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(content)
        photographs = make_scenes.training_photographs(self.folder / "train")
        self.assertEqual([one.label for one in photographs], ["n00000001"] * 2)
        found = make_scenes.held_out_among(photographs, self.folder / "eval")
        self.assertEqual([file.name for file in found], ["c.jpg"])
        (self.folder / "train" / "d.jpg").write_text("3")
        unlabelled = make_scenes.training_photographs(self.folder / "train")
        self.assertEqual([one.label for one in unlabelled], [""] * 3, "one without a synset")


@unittest.skipIf(Image is None, "no Pillow")
class Pictures(Folder):
    def setUp(self) -> None:
        super().setUp()
        self.photographs, self.backgrounds = self.folder / "photographs", self.folder / "backgrounds"
        self.photographs.mkdir()
        self.backgrounds.mkdir()
        for i in range(3):
            Image.new("RGB", (299, 299), (250, 10, 10 + i)).save(self.photographs / f"{i}.png")
        for i in range(4):
            Image.new("RGB", (1920, 1080), (10, 10, 60 * i)).save(self.backgrounds / f"{i}.png")
        self.write_csv("photographs/images.csv", [{"file": f"{i}.png", "class_index": str(7 * i)} for i in range(3)])

    def make(self, name: str, *words: str) -> list[dict[str, str]]:
        given = sys.argv
        self.addCleanup(setattr, sys, "argv", given)
        folders = ["--photographs", str(self.photographs), "--backgrounds", str(self.backgrounds)]
        sys.argv = ["make_scenes.py", str(self.folder / name), *folders, *words]
        make_scenes.main()
        return resolution.read_labels(self.folder / name / "labels.csv")

    def test_the_photograph_is_where_the_table_says(self) -> None:
        rows = self.make("scenes", "--count", "6")
        self.assertEqual(list(rows[0]), ["file", "class_index", "size", "left", "top", "background", "source"])
        self.assertEqual({row["background"] for row in rows} - {"1.png", "3.png"}, set())
        for row in rows:
            self.assertEqual(int(row["class_index"]), 7 * int(row["source"][0]))
            picture = Image.open(self.folder / "scenes" / row["file"])
            self.assertEqual(picture.size, (1920, 1088))
            left, top, size = (int(row[name]) for name in ("left", "top", "size"))
            inside = picture.getpixel((left + size // 2, top + size // 2))
            self.assertGreater(inside[0], 200)
            for x, y in ((left - 20, top), (left + size + 20, top), (left, top - 20), (left, top + size + 20)):
                if 0 <= x < 1920 and 0 <= y < 1088:
                    self.assertLess(picture.getpixel((x, y))[0], 60)

    def test_the_same_seed_gives_the_same_files(self) -> None:
        def digests(name: str) -> dict[str, str]:
            files = sorted((self.folder / name).rglob("*.*"))
            return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}

        self.make("one", "--count", "4")
        self.make("two", "--count", "4")
        self.make("three", "--count", "4", "--seed", "2")
        self.assertEqual(digests("one"), digests("two"))
        self.assertNotEqual(digests("one")["labels.csv"], digests("three")["labels.csv"])

    def test_fill_covers_the_picture(self) -> None:
        row = self.make("enlarged", "--count", "1", "--sizes", "fill")[0]
        self.assertEqual((row["size"], row["background"]), ("fill", ""))
        picture = Image.open(self.folder / "enlarged" / row["file"])
        self.assertEqual(picture.size, (1920, 1088))
        for corner in ((0, 0), (1919, 1087)):
            self.assertGreater(picture.getpixel(corner)[0], 200)

    def test_natural_pictures_are_enlarged(self) -> None:
        Image.new("RGB", (64, 32), (250, 10, 10)).save(self.photographs / "a.jpg")
        boxes = [("a.jpg", "3", "0", "0", "0.2", "0.3"), ("a.jpg", "3 7", "0", "0", "0.3", "0.4"), ("0.png", "5", "0", "0", "0.3", "0.3")]
        columns = ("file", "class_indices", "left", "top", "width", "height")
        self.write_csv("photographs/objects.csv", [dict(zip(columns, row)) for row in boxes])
        rows = self.make("natural", "--natural", str(self.photographs))
        self.assertEqual([tuple(row.values()) for row in rows], [("a.jpg", "3 7", "others"), ("0.png", "5", "small things")])
        with Image.open(self.folder / "natural" / "a.jpg") as picture:
            self.assertEqual(picture.size, (2176, 1088))

    def test_training_takes_the_other_backgrounds_and_no_evaluation_photograph(self) -> None:
        other = self.folder / "other" / "n00000007"
        other.mkdir(parents=True)
        Image.new("RGB", (300, 150), (250, 10, 99)).save(other / "x.png")
        evaluation, self.photographs = self.photographs, other.parent
        rows = self.make("training", "--part", "train", "--held-out", str(evaluation), "--count", "3")
        self.assertEqual({row["background"] for row in rows} - {"0.png", "2.png"}, set())
        self.assertEqual({row["label"] for row in rows}, {"n00000007"})
        self.assertTrue(all(row["file"].startswith("n00000007/") for row in rows))
        self.photographs = evaluation
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as said:
            self.make("refused", "--part", "train", "--held-out", str(evaluation))
        self.assertIn("3 evaluation photographs", said.getvalue())

    def test_refuses_folders_that_are_not_there(self) -> None:
        train = ["--part", "train", "--held-out"]
        (self.folder / "empty").mkdir()
        for words, text in (([*train, str(self.folder / "misspelt")], "no evaluation photographs below"),
                            ([*train, str(self.folder / "empty")], "no evaluation photographs below"),
                            (["--photographs", str(self.folder / "empty")], "images.csv"),
                            (["--backgrounds", str(self.folder / "misspelt")], "no such file or folder")):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as said:
                self.make("refused", *words)
            self.assertIn(text, said.getvalue())
        self.assertFalse((self.folder / "refused").exists())


class Figures(unittest.TestCase):
    def test_standard_errors_are_binomial(self) -> None:
        self.assertAlmostEqual(resolution.standard_error(50, 100), 5)
        self.assertAlmostEqual(resolution.standard_error(84.6, 500), 1.6142, places=4)
        for percent in (0, 100):
            self.assertAlmostEqual(resolution.standard_error(percent, 167), 0.4190, places=4)

    def test_pooling_weighs_pictures(self) -> None:
        rows = [{"n": 1, "top1": 100.0, "top5": 100.0, "ms": 4.0, "model_ms": 2.0, "peak_mb": 7},
                {"n": 3, "top1": 0.0, "top5": 100.0, "ms": 8.0, "model_ms": 2.0, "peak_mb": 9}]
        self.assertEqual(resolution.pooled(rows), {"n": 4, "top1": 25, "top5": 100, "ms": 7, "model_ms": 2, "peak_mb": 9})

    def test_every_bundled_photograph_has_its_classes(self) -> None:
        self.assertEqual(sorted(resolution.SHOWN), sorted(file.name for file in (ROOT / "assets" / "images").iterdir()))
        names = (ROOT / "assets" / "labels" / "imagenet1k.txt").read_text().splitlines()
        known = {line.split(" ", 1)[1].split(",")[0] for line in names}
        for classes in resolution.SHOWN.values():
            self.assertLessEqual(classes, known)


class Runs(Folder):
    def setUp(self) -> None:
        super().setUp()
        self.program = self.folder / "hydrascope"
        self.program.write_text(FAKE)
        self.program.chmod(0o755)
        for model in ("one", "two"):
            (self.folder / f"{model}.safetensors").write_text(model)
        self.write_csv("photographs/images.csv", [{"file": f"{i}.jpg", "class_index": str(i)} for i in range(8)])
        self.write_csv("scenes/labels.csv", [{"file": f"{i}.jpg", "class_index": str(i), "size": size, "left": "0", "top": "0"}
                                             for i, size in enumerate(["150", "299", "600", "150"])])
        (self.folder / "docs" / "notes").mkdir(parents=True)
        page = (ROOT / "docs" / "notes" / "resolution.md").read_text()
        (self.folder / "docs" / "notes" / "resolution.md").write_text(page)

    def measure(self, *words: str) -> tuple[int, int]:
        """The exit code, and how often the program was asked for figures."""
        calls = self.folder / "calls"
        calls.write_text("")
        given = ["--program", self.program, "--docs", self.folder / "docs", "--photographs", self.folder / "photographs",
                 "--scenes", self.folder / "scenes", *words]
        with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(io.StringIO()) as said:
            code = resolution.main([str(word) for word in given])
        self.printed, self.said = printed.getvalue(), said.getvalue()
        return code, sum(not line.startswith("doctor") for line in calls.read_text().splitlines())

    def rows(self) -> list[resolution.Json]:
        return json.loads((self.folder / "docs" / "measurements" / "resolution.json").read_text())["rows"]

    def page(self) -> str:
        return (self.folder / "docs" / "notes" / "resolution.md").read_text()

    def test_what_is_measured_is_not_measured_again(self) -> None:
        one, two = (f"{name}={self.folder}/{name}.safetensors" for name in ("one", "two"))
        whole = ["--views", "whole", "native", "--models"]
        l1, l2, l3 = len(resolution.SIZES), 3 * 2, 2
        self.assertEqual(self.measure(*whole, one), (0, l1 + l2 + l3))
        self.assertEqual(self.measure(*whole, one), (0, 0))
        self.assertEqual(self.measure(*whole, one, two), (0, l1 + l2 + l3), "the other model")
        self.assertEqual(self.measure("--sets", "L3", "--again", *whole, one), (0, l3))
        (self.folder / "two.safetensors").write_text("taught anew")
        self.assertEqual(self.measure("--sets", "L3", *whole, one, two), (0, l3), "its checkpoint changed")
        self.assertIn("| two (", self.page())
        self.write_csv("photographs/images.csv", [{"file": f"{i}.jpg", "class_index": "9"} for i in range(8)])
        self.assertEqual(self.measure("--sets", "L1", *whole, one), (0, l1), "its labels changed")
        self.assertEqual(len(self.rows()), 2 * (l1 + l2 + l3) + l3)

    def test_a_subset_is_marked_and_replaced_by_more(self) -> None:
        words = ["--sets", "L1", "--models", f"one={self.folder}/one.safetensors"]
        sizes = len(resolution.SIZES)
        self.assertEqual(self.measure(*words, "--limit", "5"), (0, sizes))
        self.assertEqual({row["n"] for row in self.rows()}, {5})
        self.assertIn("| one |" + " 75.0 ± 19.4 / 90.0 |" * sizes + " 5 |", self.page())
        self.assertEqual(self.measure(*words, "--limit", "3"), (0, 0))
        self.assertIn("one, L1, 224, whole: known, 75.0 ± 19.4 / 90.0, 25.0 ms", self.printed)
        self.assertEqual(self.measure(*words), (0, sizes))
        self.assertEqual({row["n"] for row in self.rows()}, {8})
        self.assertEqual(self.measure(*words, "--limit", "5"), (0, 0))
        self.assertEqual(self.measure(*words, "--again", "--parts", "224", "1088x1920"), (0, 2))

    def test_a_failure_is_told_and_the_rest_goes_on(self) -> None:
        words = ["--sets", "L2", "--models", f"one={self.folder}/one.safetensors"]
        self.assertEqual(self.measure(*words), (1, 3 * len(resolution.VIEWS)), self.said)
        self.assertIn("one, L2, 150, tiles: error: cannot tile", self.said)
        self.assertEqual({row["view"] for row in self.rows()}, {"whole", "native", "pyramid", "look"})
        self.assertEqual(self.measure(*words), (1, 3), "only what failed")

    def test_writes_tables_and_a_figure(self) -> None:
        words = ["--views", "whole", "native", "--models", f"one <b>={self.folder}/one.safetensors"]
        self.write_csv("enlarged/labels.csv", [{"file": "0.jpg", "class_index": "3", "size": "fill"}])
        self.measure(*words, "--enlarged", str(self.folder / "enlarged"))
        page = self.page()
        self.assertEqual(page.count("Not measured yet"), 2, "neither soft scenes nor natural pictures")
        self.assertIn("2 processors of a processor, by the program of commit `abc`", page)
        self.assertIn("| one <b> | whole | 75.0 ± 43.3 / 90.0 | 25.0 | 50.0 |", page, "enlarged files")
        self.assertIn("| one <b> | native | otter 50 % |", page, "wrong")
        self.assertIn("| **otter** 50 % | **otter** 50 % | 2 of 5 | 4 of 5 |", page)
        row = next(row for row in self.rows() if row["set"] == "L2")
        self.assertEqual((row["ms"], row["model_ms"]), (50, 25))
        self.assertGreater(row["peak_mb"], 0)
        self.assertNotIn(str(self.folder), json.dumps(self.rows()))
        svg = xml.etree.ElementTree.parse(self.folder / "docs" / "figures" / "resolution.svg")
        titles = [element.text for element in svg.iter("{http://www.w3.org/2000/svg}title")]
        self.assertEqual(titles.count("one <b>, native: 75.0, 50.0 ms"), 4, "enlarged files and three sizes")
        self.assertEqual(titles.count("one <b>, native: 40.0, 50.0 ms"), 1, "bundled photographs")
        before = page
        self.assertEqual(self.measure("--sets"), (0, 0))
        self.assertEqual(self.page(), before, "nothing new")

    def test_natural_pictures_count_any_labelled_object(self) -> None:
        # Top-1 is class 7, top-5 also has class 8.
        rows = [("0.jpg", "3 7", "others"), ("1.jpg", "8", "others"), ("2.jpg", "9", "small things"), ("3.jpg", "7", "small things")]
        folder = self.write_csv("natural/labels.csv", [dict(zip(("file", "class_indices", "size"), row)) for row in rows]).parent
        words = ["--sets", "L4", "--natural", folder, "--views", "whole", "--models", f"one={self.folder}/one.safetensors"]
        self.assertEqual(self.measure(*words), (0, 2))
        found = {row["part"]: (row["n"], row["top1"], row["top5"]) for row in self.rows()}
        self.assertEqual(found, {"others": (2, 50, 100), "small things": (2, 50, 50)})
        self.assertIn("| one | whole | 50.0 ± 35.4 / 100.0 | 50.0 ± 35.4 / 50.0 | 50.0 ± 25.0 / 75.0 |", self.page())
        self.assertEqual(self.measure("--again", "--limit", "1", *words), (0, 2))
        self.assertEqual({row["n"] for row in self.rows()}, {1})

    def test_boxes_of_looks_are_compared_with_the_photograph(self) -> None:
        # The box covers 100x100 from (10, 0): of a photograph of 100 pixels 90, of one of 40 only 30x40.
        rows = [("0.jpg", "7", "100", "0"), ("1.jpg", "7", "100", "80"), ("2.jpg", "8", "100", "0"), ("3.jpg", "7", "40", "0")]
        folder = self.write_csv("soft/labels.csv", [{**dict(zip(("file", "class_index", "size", "left"), row)), "top": "0"} for row in rows])
        words = ["--sets", "L2soft", "--soft", folder.parent, "--views", "look", "--models", f"one={self.folder}/one.safetensors"]
        self.assertEqual(self.measure(*words), (0, 2))
        found = {row["part"]: (row["right"], row["right_boxes"], round(row["several"])) for row in self.rows()}
        self.assertEqual(found, {"100": (2, 50, 33), "40": (1, 0, 0)})
        self.assertIn("| one | 100 | 50.0 ± 35.4 | 33.3 ± 27.2 |", self.page())

    def test_times_are_measured_without_answers(self) -> None:
        words = ["--sets", "L2", "--views", "whole", "--models", f"one={self.folder}/one.safetensors"]
        self.assertEqual(self.measure("--times", "1", *words), (0, 0), "nothing is known")
        self.measure(*words)
        record = self.folder / "docs" / "measurements" / "resolution.json"
        record.write_text(record.read_text().replace('"ms": 50', '"ms": 7').replace('"top1": 75', '"top1": 60'))
        self.assertEqual(self.measure("--times", "1", *words), (0, 3))
        self.assertEqual({(row["ms"], row["top1"], row["n"], row["timed"]) for row in self.rows() if row["part"] != "150"},
                         {(50, 60, 1, 1)})
        self.assertEqual({row["n"] for row in self.rows() if row["part"] == "150"}, {2})

    def test_refuses_what_it_cannot_measure(self) -> None:
        for words in (["--models", "nothing"], ["--sets", "L5"], ["--natural", self.folder / "misspelt"], ["--docs", str(self.folder), "--scenes"]):
            with self.assertRaises(SystemExit):
                self.measure(*words)
        one = ["--models", f"one={self.folder}/one.safetensors"]
        for words in (["--limit", "0"], ["--scenes", str(self.folder / "misspelt")]):
            with self.assertRaises(SystemExit):
                self.measure(*one, *words)
        self.assertEqual(self.measure("--sets", "L1", "L2", "--parts", "300", *one), (2, 0))
        self.assertIn("nothing to measure", self.said)


if __name__ == "__main__":
    done = unittest.main(exit=False).result
    if done.wasSuccessful() and Image is None:
        print("skipped: no Pillow")
        sys.exit(77)
    sys.exit(not done.wasSuccessful())
