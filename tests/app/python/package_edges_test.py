"""The Python package where programs around it do something of their own: forks, interrupts, threads, changed files, forms
of pictures and options, notes.

    python tests/app/python/package_edges_test.py [--tree BUILD_FOLDER]

As package_test.py.
"""

import copy
import io
import mmap
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import typing
import unittest
import warnings
from pathlib import Path
from unittest import mock

from under_test import ENVIRONMENT, EXACT, OTTER, PIL, ROOT, command, rest  # first: sets the path

import hydrascope
import numpy as np
import torch
from hydrascope import functions, nn

MODELS = ROOT / "assets" / "models"


def program(text: str, seconds: float = 120) -> str:
    """The output of a Python of its own. A process that hangs is the failure that some of these look for."""
    start = f"import hydrascope, os, sys\nOTTER = {str(OTTER)!r}\nEXACT = {EXACT!r}\n"
    done = subprocess.run([sys.executable, "-B", "-c", start + text], capture_output=True, text=True, check=False,
                          timeout=seconds, env=ENVIRONMENT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Processes(unittest.TestCase):
    def test_a_forked_child_opens_its_own_model(self) -> None:
        self.assertEqual(program("""
import multiprocessing
def ask(picture):
    return hydrascope.classify(picture, **EXACT).label
print(ask(OTTER))
with multiprocessing.get_context("fork").Pool(1) as pool:
    print(pool.map(ask, [OTTER, OTTER]))
"""), "otter\n['otter', 'otter']\n")

    def test_a_forked_child_ends_and_says_whose_a_model_is(self) -> None:
        self.assertEqual(program("""
model = hydrascope.Model(**EXACT)
hydrascope.classify(OTTER, **EXACT)
child = os.fork()
if child == 0:
    try:
        model.classify(OTTER)
    except hydrascope.InvalidArgumentError as error:
        print(error, flush=True)
    model.close()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
print(model.classify(OTTER).label)
"""), "the model was opened by the process that this one was forked from: open it here\notter\n")

    def test_ctrl_c_ends_a_long_list(self) -> None:
        self.assertRegex(program("""
import signal, threading, time
model = hydrascope.Model(views="whole", **EXACT)
sent = []
def interrupt():
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
threading.Timer(0.5, interrupt).start()
try:
    model.classify([OTTER] * 20000)
except KeyboardInterrupt:
    print("interrupted" if time.monotonic() - sent[0] < 2 else "late")
print(model.classify(OTTER).label)
"""), r"^interrupted\notter\n$")

    def test_a_model_cannot_be_copied(self) -> None:
        with hydrascope.Model(**EXACT) as model:
            for form in (copy.copy, copy.deepcopy, pickle.dumps):
                with self.assertRaisesRegex(TypeError, "cannot be copied or pickled"):
                    form(model)
            self.assertEqual(model.classify(OTTER).label, "otter")
            answers = pickle.loads(pickle.dumps(model.classify([OTTER, "/nonexistent"], on_error="skip")))
            self.assertEqual((answers[0].label, answers[1].error.filename), ("otter", "/nonexistent"))

    def test_closing_waits_for_a_long_list(self) -> None:
        model = hydrascope.Model(views="whole", **EXACT)
        answers: list[hydrascope.Answer] = []
        has_begun = threading.Event()

        def pictures() -> typing.Iterator[Path]:
            for number in range(200):
                if number == 100:
                    has_begun.set()
                yield OTTER

        thread = threading.Thread(target=lambda: answers.extend(model.classify(pictures())))
        thread.start()
        self.assertTrue(has_begun.wait(60))
        model.close()
        thread.join(60)
        self.assertEqual([one.label for one in answers], ["otter"] * 200)
        with self.assertRaisesRegex(hydrascope.InvalidArgumentError, "closed"):
            model.classify([])


class OpenModels(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.addCleanup(os.chdir, Path.cwd())

    def put(self, name: str, where: str) -> Path:
        file = self.folder / where
        file.parent.mkdir(exist_ok=True)
        shutil.copyfile(MODELS / f"deit_tiny_patch16_224.{name}.safetensors", self.folder / "new")
        os.replace(self.folder / "new", file)
        return file

    def probability(self, model: object, **options: object) -> float:
        given = hydrascope.classify(OTTER, model=model, **options, **EXACT).probability
        with hydrascope.Model(model, **options, **EXACT) as fresh:
            self.assertEqual(given, fresh.classify(OTTER).probability)
        return given

    def test_a_file_that_changed_is_opened_anew(self) -> None:
        file = self.put("softmax", "m.safetensors")
        before = self.probability(file)
        self.put("hedgehog", "m.safetensors")
        self.assertNotEqual(self.probability(file), before)
        inside = self.put("softmax", "folder/model.safetensors")
        (inside.parent / "config.json").write_text('{"architecture": "deit_tiny_patch16_224"}')
        self.assertEqual(self.probability(inside.parent), before)
        self.put("hedgehog", "folder/model.safetensors")
        self.assertNotEqual(self.probability(inside.parent), before)

    def test_a_name_means_another_file_in_another_folder(self) -> None:
        self.put("softmax", "m.safetensors")
        inside = self.put("hedgehog", "sub/m.safetensors")
        os.chdir(self.folder)
        before = self.probability("m.safetensors")
        os.chdir(inside.parent)
        self.assertNotEqual(self.probability("m.safetensors"), before)

    def test_labels_that_changed_are_read_anew(self) -> None:
        labels = self.folder / "labels.txt"
        found = []
        for text in ("a", "ab"):
            labels.write_text("".join(f"{text} {number}\n" for number in range(1000)))
            found.append(hydrascope.classify(OTTER, labels=labels, **EXACT).label)
        self.assertEqual(found, ["a 360", "ab 360"])

    def test_classes_maps_and_embeddings_share_a_model(self) -> None:
        functions._opened.clear()
        with mock.patch.object(functions, "_open", wraps=functions._open) as opened:
            for _ in range(2):
                self.assertEqual(hydrascope.classify(OTTER, **EXACT).maps, ())
                self.assertEqual(hydrascope.embed(OTTER, **EXACT).shape, (192,))
                self.assertEqual(len(hydrascope.explain(OTTER, **EXACT).maps), 1)
        self.assertEqual((opened.call_count, len(functions._opened)), (2, 1))


class Forms(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.model = hydrascope.Model(embeddings=True, maps=True, layer="all", **EXACT)
        cls.addClassCleanup(cls.model.close)

    def test_files_and_memory(self) -> None:
        expected = self.model.classify(OTTER).logits
        encoded = OTTER.read_bytes()
        whole = encoded + bytes(-len(encoded) % 4)
        twice = np.repeat(np.frombuffer(encoded, np.uint8), 2).tobytes()
        with OTTER.open("rb") as file, OTTER.open("rb") as mapped, \
                mmap.mmap(mapped.fileno(), 0, access=mmap.ACCESS_READ) as mapping:
            for form in (file, io.BytesIO(encoded), mapping, memoryview(whole).cast("I"), memoryview(twice)[::2],
                         memoryview(whole).cast("B", (4, len(whole) // 4))):
                np.testing.assert_array_equal(self.model.classify(form).logits, expected)
        for wrong, text in ((io.StringIO("x"), "gives str"), ({OTTER: 1}, "found dict"), (None, "found NoneType"),
                            ([[OTTER]], "found list"), (f"{OTTER}\0.png", "zero byte")):
            with self.assertRaisesRegex(hydrascope.InvalidArgumentError, text):
                self.model.classify(wrong)

    @unittest.skipIf(PIL is None, "no Pillow")
    def test_images_of_pillow_are_their_files(self) -> None:
        random = np.random.default_rng(0)
        colour = PIL.Image.fromarray(random.integers(0, 256, (40, 50, 3), dtype=np.uint8))
        alpha = PIL.Image.fromarray(random.integers(0, 256, (40, 50), dtype=np.uint8))
        wide = random.integers(0, 65536, (40, 50), dtype=np.uint16)
        wide[:10] = 777
        rgba, grey_alpha, palette = colour.convert("RGBA"), colour.convert("LA"), colour.convert("P")
        rgba.putalpha(alpha)
        grey_alpha.putalpha(alpha)
        key = (1, 2, 3)
        keyed = np.array(colour)
        keyed[:20] = key
        given = {"rgba.png": (rgba, {}), "la.png": (grey_alpha, {}), "p.png": (palette, {"transparency": 5}),
                 "grey.png": (colour.convert("L"), {}), "bits.png": (colour.convert("1"), {}),
                 "keyed.png": (PIL.Image.fromarray(keyed), {"transparency": key}), "wide.png": (PIL.Image.fromarray(wide), {}),
                 "keyed-wide.png": (PIL.Image.fromarray(wide), {"transparency": 777}),
                 "wide.pgm": (PIL.Image.fromarray(wide), {})}
        with tempfile.TemporaryDirectory() as folder:
            for name, (image, options) in given.items():
                with self.subTest(name):
                    file = Path(folder) / name
                    image.save(file, **options)
                    with PIL.Image.open(file) as opened:
                        np.testing.assert_array_equal(self.model.classify(opened).logits, self.model.classify(file).logits)
        for mode in ("I", "F"):
            with self.assertRaisesRegex(hydrascope.InvalidArgumentError, f"mode {mode}"):
                self.model.classify(colour.convert(mode))

    def test_tensors_that_are_no_pixels(self) -> None:
        for wrong, text in ((torch.zeros(3, 5, 5, dtype=torch.bfloat16), "bfloat16"),
                            (torch.zeros(5, 5, 3, dtype=torch.uint8, device="meta"), "on meta"),
                            (torch.zeros(5, 5, dtype=torch.uint8).to_sparse(), "sparse")):
            with self.assertRaisesRegex(hydrascope.InvalidArgumentError, text):
                self.model.classify(wrong)

    def test_a_way_out_for_numbers_that_are_no_pixels(self) -> None:
        whole = np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)
        for wrong, text in ((whole / 255, "multiplied by 255"), (whole.astype(np.float32) / 255, "multiplied by 255"),
                            (torch.from_numpy(whole) / 255, "multiplied by 255"), (whole.astype(np.uint16) * 257, "x >> 8"),
                            (np.dstack([whole, whole[:, :, :1]]), "PIL.Image.fromarray")):
            with self.assertRaisesRegex(hydrascope.InvalidArgumentError, text):
                self.model.classify(wrong)

    @unittest.skipIf(PIL is None, "no Pillow")
    def test_an_image_that_pillow_cannot_decode_is_one_of_the_answers(self) -> None:
        cut = PIL.Image.open(io.BytesIO(OTTER.read_bytes()[:20000]))
        answers = self.model.classify([OTTER, cut, None, OTTER], on_error="skip")
        self.assertEqual([type(one.error) for one in answers],
                         [type(None), hydrascope.DecodeError, hydrascope.InvalidArgumentError, type(None)])
        self.assertEqual((answers[1].record["input"], answers[1].record["error"]["code"]), ("picture 1", "decode_failed"))
        np.testing.assert_array_equal(answers[3].logits, self.model.classify(OTTER).logits)
        cut = PIL.Image.open(io.BytesIO(OTTER.read_bytes()[:20000]))
        with self.assertRaisesRegex(hydrascope.DecodeError, r"truncated.*\(picture 1\)"):
            self.model.explain([OTTER, cut])

    @unittest.skipIf(PIL is None, "no Pillow")
    def test_orientation_is_that_of_the_file(self) -> None:
        picture = PIL.Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8))
        exif = PIL.Image.Exif()
        exif[0x0112] = 6
        with tempfile.TemporaryDirectory() as folder:
            for name in ("a.png", "a.jpg"):
                file = Path(folder) / name
                picture.save(file, exif=exif, **({"quality": 100, "subsampling": 0} if name == "a.jpg" else {}))
                of_file = self.model.classify(file)
                with PIL.Image.open(file) as opened:
                    of_image = self.model.classify(opened)
                    of_pixels = self.model.classify(np.asarray(opened))
                self.assertEqual((of_file.record["height"], of_image.record["height"], of_pixels.record["height"]), (60, 60, 40))
                np.testing.assert_allclose(of_image.logits, of_file.logits, atol=0.1)

    def test_values_of_options(self) -> None:
        maps = self.model.explain(OTTER, classes=np.int64(3), layer=range(2)).maps
        self.assertEqual([(one.layer, one.class_index) for one in maps], [(0, 3), (1, 3)])
        maps = self.model.explain(OTTER, classes=np.array([3, 5]), layer=np.arange(2)).maps
        self.assertEqual([(one.layer, one.class_index) for one in maps], [(0, 3), (0, 5), (1, 3), (1, 5)])
        self.assertEqual(len(self.model.classify(OTTER, topk=np.int64(3)).top), 3)
        with self.assertRaisesRegex(hydrascope.InvalidArgumentError, "found dict"):
            hydrascope.classify(OTTER, attn_opt={"hydra.scale": "none"})
        with self.assertRaisesRegex(hydrascope.InvalidArgumentError, "zero byte"):
            hydrascope.classify(OTTER, attn="hydra\0")

    def test_a_number_is_an_index_where_classes_are_called_by_numbers(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            names = Path(folder) / "names.txt"
            names.write_text("".join(f"{i}\n" for i in range(1, 1001)))
            with hydrascope.Model(maps=True, labels=names) as model:
                found = [model.explain(OTTER, classes=one, layer=11).maps[0] for one in (360, "360", "index:360")]
        self.assertEqual([(one.class_index, one.label) for one in found], [(360, "361"), (359, "360"), (360, "361")])

    def test_folders_and_patterns_are_several(self) -> None:
        folder = OTTER.parent
        names = sorted(str(one) for one in folder.glob("*.jpg"))
        for word in (folder, f"{folder}/*.jpg", [folder]):
            answers = self.model.classify(word)
            self.assertEqual([one.record["input"] for one in answers], names)
        self.assertEqual(len(self.model.classify([f"{folder}/otter*", OTTER])), 2)
        with tempfile.TemporaryDirectory() as empty:
            Path(empty, "list.txt").write_text(f"{OTTER}\n")
            self.assertEqual(self.model.classify(f"@{empty}/list.txt")[0].label, "otter")
            with self.assertRaisesRegex(hydrascope.EmptyError, "no pictures in this folder"):
                self.model.classify(empty)
            answers = self.model.classify([empty, OTTER, f"{empty}/*.jpg"], on_error="skip")
            self.assertEqual([type(one.error) for one in answers], [hydrascope.EmptyError, type(None), hydrascope.EmptyError])

    def test_no_pictures(self) -> None:
        self.assertEqual((self.model.classify(()), self.model.explain(iter([]))), ([], []))
        self.assertEqual(self.model.embed([]).shape, (0, 192))

    def test_many_pictures_keep_their_order(self) -> None:
        random = np.random.default_rng(0)
        pictures: list[object] = [random.integers(0, 256, (32, 32, 3), dtype=np.uint8) for _ in range(150)]
        pictures[140] = b"x"
        answers = self.model.classify(iter(pictures), on_error="skip")
        self.assertEqual(len(answers), 150)
        for number in (0, 31, 32, 100, 149):
            np.testing.assert_allclose(answers[number].logits, self.model.classify(pictures[number]).logits, atol=1e-4)
        self.assertIn("(picture 140)", str(answers[140].error))
        with self.assertRaisesRegex(hydrascope.UnsupportedFormatError, "picture 140"):
            _ = answers[140].label
        with self.assertRaisesRegex(hydrascope.UnsupportedFormatError, "picture 140"):
            self.model.classify(pictures)


class Defaults(unittest.TestCase):
    def test_model_and_views_are_those_of_the_command_line(self) -> None:
        picture = np.random.default_rng(0).integers(0, 256, (464, 576, 3), dtype=np.uint8)
        window = "deit_tiny_patch16_224.window"
        cases: list[tuple[dict[str, typing.Any], str, str | None]]
        cases = [({}, "softmax", window), ({"views": "zoom"}, "softmax", window), ({"native": True}, "window", None), ({"views": "whole"}, "softmax", None),
                 ({"model": window}, "window", None), ({"model": window, "views": "zoom"}, "window", window)]
        for options, attention, finder in cases:
            record = hydrascope.classify(picture, **options, **EXACT).record
            self.assertEqual((record["attention"], record.get("finder"), "views" in record), (attention, finder, finder is not None), options)


class Notes(unittest.TestCase):
    def said(self, ask: typing.Callable[[], object]) -> tuple[typing.Any, list[str]]:
        """The result, and the warnings, each at a line of this file."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            given = ask()
        self.assertEqual({(one.category, one.filename) for one in caught} - {(hydrascope.HydrascopeWarning, __file__)}, set())
        return given, [str(one.message) for one in caught]

    def test_a_picture_far_above_the_models_size(self) -> None:
        picture = np.random.default_rng(0).integers(0, 256, (576, 576, 3), dtype=np.uint8)
        with hydrascope.Model("deit_tiny_patch16_224.softmax", native=True, maps=True, **EXACT) as model:
            note = "deit_tiny_patch16_224.softmax was trained at 224x224 (HxW); answers at 576x576 are less accurate; " \
                   "deit_tiny_patch16_224.window is made for large pictures"
            answer, said = self.said(lambda: model.classify(picture))
            self.assertEqual((said, answer.record["notes"], model.facts["notes"]), ([note], [note], []))
            (small, explained), said = self.said(lambda: (model.classify(picture[:224, :224]), model.explain(picture)))
            self.assertEqual((said, explained.record["notes"]), ([], [note]))
            self.assertNotIn("notes", small.record)
            self.assertNotIn("notes", explained.maps[0].record)
        with hydrascope.Model(native=True, **EXACT) as model:
            answer, said = self.said(lambda: model.classify(picture))
            self.assertEqual((said, answer.record.get("notes")), ([], None))
        done = command("classify", "--native", "-m", "deit_tiny_patch16_224.softmax", OTTER)
        self.assertIn("deit_tiny_patch16_224.window is made for large pictures", done.stderr)

    def test_an_attention_that_the_weights_were_not_trained_with(self) -> None:
        note = "attention changed from softmax to hydra after training: accuracy needs `hydrascope convert`"
        functions._opened.clear()
        answer, said = self.said(lambda: hydrascope.classify(OTTER, attn="hydra", **EXACT))
        self.assertEqual((said, answer.record["notes"]), ([note], [note]))
        _, said = self.said(lambda: hydrascope.classify(OTTER, attn="hydra", **EXACT))
        self.assertEqual(said, [], "the model is open already")
        model, said = self.said(lambda: hydrascope.Model(attn="hydra", **EXACT))
        self.assertEqual((said, model.facts["notes"]), ([note], [note]))
        model.close()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with self.assertRaisesRegex(hydrascope.HydrascopeWarning, "attention changed"):
                hydrascope.classify(OTTER, attn="hydra", **EXACT, threads=1)

    def test_those_of_commands(self) -> None:
        _, said = self.said(lambda: hydrascope.run("classify", OTTER, attn="hydra"))
        self.assertRegex(said[0], "attention changed from softmax to hydra")


class Errors(unittest.TestCase):
    def test_what_is_missing_is_not_found(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder) / "out.safetensors"
            for ask in (lambda name: hydrascope.classify(name, **EXACT), hydrascope.Model,
                        lambda name: hydrascope.Model(labels=name), lambda name: hydrascope.convert(name, output),
                        lambda name: hydrascope.run("models", "info", name), lambda name: hydrascope.run("classify", name),
                        lambda name: hydrascope.run("classify", name, format="json"), nn.load):
                with self.assertRaisesRegex(hydrascope.NotFoundError, "no such file.*nonexistent") as caught:
                    ask("/nonexistent.safetensors")
                self.assertIsInstance(caught.exception, FileNotFoundError)
                self.assertEqual((caught.exception.errno, caught.exception.filename), (2, "/nonexistent.safetensors"))

    def test_other_errors_of_commands(self) -> None:
        with tempfile.NamedTemporaryFile(suffix=".jpg") as file:
            for options in ({}, {"format": "jsonl"}):
                with self.assertRaisesRegex(hydrascope.EmptyError, "empty"):
                    hydrascope.run("classify", OTTER, file.name, **options)
        with self.assertRaisesRegex(hydrascope.InvalidArgumentError, "expected pictures to learn from"):
            hydrascope.convert("deit_tiny_patch16_224.softmax", "o.safetensors", attn="hydra", device="cpu")

    def test_convert_takes_names(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            written = hydrascope.convert("deit_tiny_patch16_224.softmax", Path(folder) / "o.safetensors")
            self.assertEqual(hydrascope.classify(OTTER, model=written, **EXACT).label, "otter")

    def test_version_and_types(self) -> None:
        self.assertIn(hydrascope.__version__, command("version").stdout)
        self.assertFalse(hasattr(hydrascope, "__versions__"))
        if sys.version_info >= (3, 11):
            for one in (hydrascope.classify, hydrascope.explain, hydrascope.Model.classify, hydrascope.Model.explain):
                self.assertEqual([form.__annotations__["return"] for form in typing.get_overloads(one)],
                                 ["Answer", "list[Answer]"])


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell's job runs in the background
    unittest.main(argv=[sys.argv[0], *rest])
