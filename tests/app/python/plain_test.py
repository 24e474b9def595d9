"""The parts of the Python package that need neither PyTorch nor NumPy nor the built library: versions, notes and warnings, metadata
of checkpoints, the program's processes.

    python tests/app/python/plain_test.py
"""

import ctypes
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import types
import unittest
import warnings
from pathlib import Path
from unittest import mock

PACKAGE = Path(__file__).resolve().parents[3] / "app" / "python"
sys.path.insert(0, str(PACKAGE))
# Annotations and the list of what can be a picture name NumPy; nothing here calls it.
STUB = "import sys, types; sys.modules['numpy'] = types.SimpleNamespace(ndarray=type('ndarray', (), {}), uint8=int, " \
       "float32=float, zeros=lambda *_: None, empty=lambda *_: [], __spec__=None)\n"
exec(STUB)

import hydrascope  # noqa: E402
from hydrascope import _library, _metadata, _progress, _torch, errors  # noqa: E402
from hydrascope import model as model_module  # noqa: E402

BUILT = {"version": "0.1.0", "torch": "2.11.0"}
WAY_OUT = "pip install 'torch==2.11.*' 'torchvision==0.26.*'"


def tree(test: unittest.TestCase, program: str = "") -> Path:
    """A folder of HYDRASCOPE_TREE, whose program is a script."""
    folder = tempfile.TemporaryDirectory()
    test.addCleanup(folder.cleanup)
    root = Path(folder.name)
    (root / "libhydrascope.json").write_text(json.dumps(BUILT))
    (root / "hydrascope").write_text("#!/usr/bin/env python3\nimport os, signal, sys, time\n" + textwrap.dedent(program))
    (root / "hydrascope").chmod(0o755)
    patched = mock.patch.dict(os.environ, {"HYDRASCOPE_TREE": str(root)})
    patched.start()
    test.addCleanup(patched.stop)
    return root


class Versions(unittest.TestCase):
    def refusal(self, version: str | None, built: dict[str, str] = BUILT) -> str:
        with mock.patch.object(_torch, "found", lambda: version), mock.patch.object(_torch, "built", lambda: built):
            try:
                _torch.check()
            except errors.TorchError as error:
                self.assertIsInstance(error, ImportError)
                return str(error)
        return ""

    def test_another_release_is_refused_in_one_sentence(self) -> None:
        for version in ("2.12.1", "2.12.1+cpu", "2.10.0+cu130", "2.1.1", "3.0.0", "2.12.0a0+gitabc", "2.12.0.dev20260101"):
            self.assertEqual(self.refusal(version), f"hydrascope 0.1.0 is built for PyTorch 2.11, found {version}: {WAY_OUT}")

    def test_the_same_release_is_taken(self) -> None:
        for version in ("2.11.0", "2.11.2", "2.11.0+cpu", "2.11.0+cu130", "2.11.1rc2", "2.11.0a0+gitabc", "2.11.0.dev20260101", "2.11"):
            self.assertEqual(self.refusal(version), "")

    def test_a_build_that_does_not_say_is_taken(self) -> None:
        self.assertEqual(self.refusal("2.12.1", {}), "")
        self.assertEqual(self.refusal("of my own"), "")

    def test_missing(self) -> None:
        with mock.patch("importlib.util.find_spec", lambda _: None), mock.patch.dict(os.environ):
            os.environ.pop("HYDRASCOPE_TREE", None)
            self.assertEqual(self.refusal(None), f"hydrascope 0.1.0 is built for PyTorch 2.11, found none: {WAY_OUT}")
            os.environ["HYDRASCOPE_TREE"] = "/a/build"  # brings its own
            self.assertEqual(self.refusal(None), "")

    def test_what_is_imported_counts_before_what_is_installed(self) -> None:
        with mock.patch.dict(sys.modules, {"torch": types.SimpleNamespace(__version__="2.9.1+cpu")}):
            self.assertEqual(_torch.found(), "2.9.1+cpu")

    def test_a_library_that_cannot_be_loaded(self) -> None:
        with mock.patch.object(_torch, "found", lambda: "2.11.0"), mock.patch.object(_torch, "built", lambda: BUILT):
            text = str(_torch.unloadable(OSError("libcudart.so.13: cannot open shared object file")))
            self.assertEqual(text, "hydrascope 0.1.0 is built for PyTorch 2.11, found 2.11.0, with which it cannot be loaded "
                                   f"(libcudart.so.13: cannot open shared object file): {WAY_OUT}")
            self.assertIn("2.11.0, with which it cannot be loaded (it is broken): pip", str(_torch.unloadable(ImportError("it is broken"))))
            self.assertNotIn("pip", str(_torch.unloadable(OSError("libhwy.so.1: cannot open shared object file"))))

    def test_the_program_needs_it_beside_the_package(self) -> None:
        with mock.patch.object(_torch, "found", lambda: "2.11.0"), mock.patch.object(_torch, "built", lambda: BUILT), \
                mock.patch.dict(os.environ):
            os.environ.pop("HYDRASCOPE_TREE", None)
            with self.assertRaisesRegex(hydrascope.TorchError, f"there is none in {PACKAGE}: install hydrascope into the environment"):
                _torch.check_beside()
            os.environ["HYDRASCOPE_TREE"] = "/a/build"
            _torch.check_beside()

    def test_a_distribution_on_the_path(self) -> None:
        """As a process of its own meets it: the library is not there, and is not missed."""
        root = tree(self, "print('the program ran')")
        info = root / "torch-2.12.1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.12.1+cpu\n")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(PACKAGE)])}
        sentence = f"hydrascope 0.1.0 is built for PyTorch 2.11, found 2.12.1+cpu: {WAY_OUT}"
        # Python reads this file before it begins.
        (root / "sitecustomize.py").write_text(STUB)

        def python(*words: str) -> subprocess.CompletedProcess:
            return subprocess.run([sys.executable, "-B", *words], capture_output=True, text=True, check=False, env=environment)

        for call in ("classify('a.jpg')", "explain('a.jpg')", "embed('a.jpg')", "Model()", "__version__", "run('models', 'info', 'a')",
                     "convert('a', 'b')"):
            done = python("-c", f"import hydrascope; hydrascope.{call}")
            self.assertEqual(done.stderr.splitlines()[-1], f"hydrascope.errors.TorchError: {sentence}", call)
        self.assertEqual(python("-c", "import hydrascope.nn").stderr.splitlines()[-1],
                         f"hydrascope.errors.TorchError: {sentence}")
        done = python("-m", "hydrascope", "classify", "a.jpg")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", f"error: {sentence}\n"))
        self.assertEqual(python("-m", "hydrascope", "version").stdout, "the program ran\n")
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.11.3+cu130\n")
        self.assertEqual(python("-m", "hydrascope", "classify", "a.jpg").stdout, "the program ran\n")


class Words(unittest.TestCase):
    def test_errors_have_the_class_of_their_code(self) -> None:
        error = errors.make_error("not_found", "no such file (labels /x.txt)", "/x.txt", "labels")
        self.assertEqual((error.subject, error.hint), ("/x.txt", ""))
        hinted = errors.make_error("invalid_argument", "two (lr)", "", "lr", "leave one out")
        self.assertEqual((hinted.field, hinted.hint, str(hinted)), ("lr", "leave one out", "two (lr)\nhint: leave one out"))
        self.assertEqual((type(error), error.filename, error.field, str(error)),
                         (hydrascope.NotFoundError, "/x.txt", "labels", "no such file (labels /x.txt)"))
        self.assertEqual(type(errors.make_error("invalid_argument", "no such file (/x)")), hydrascope.InvalidArgumentError)
        self.assertEqual(type(errors.make_error("a new code", "x")), hydrascope.Error)


class Library:
    """Notes two things when it is opened, and one while it is at work on a picture."""

    def __init__(self) -> None:
        self.noted = ["one", "needs `attn`"]
        self.closed = 0
        self.may_answer = threading.Event()

    def open(self, *_: object) -> int:
        return 7

    def close(self, _: int) -> None:
        self.closed += 1

    def facts(self, _: int) -> bytes:
        return json.dumps({"notes": self.noted}).encode()

    def layers_done(self, _: int, __: object) -> int:
        return 0

    def notes(self, _: int) -> bytes:
        return json.dumps(self.noted).encode()

    def ask(self, *_: object) -> int:
        if "large" not in self.noted:
            self.noted.append("large")
        self.may_answer.wait(30)
        return 0

    def free(self, _: object) -> None:
        pass

    def pictures(self, word: bytes, count: ctypes.c_size_t) -> list[bytes]:
        count.value = 1
        return [word]


class Notes(unittest.TestCase):
    def setUp(self) -> None:
        self.library = Library()
        for patched in (mock.patch.object(_library, "library", lambda: self.library),
                        mock.patch.object(model_module, "answer_of", lambda *_: hydrascope.Answer({}))):
            patched.start()
            self.addCleanup(patched.stop)

    def test_each_is_a_warning_at_the_callers_line(self) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = hydrascope.Model()
            self.assertEqual([(str(one.message), one.category, one.filename) for one in caught],
                             [("one", hydrascope.HydrascopeWarning, __file__), ("needs `attn`", hydrascope.HydrascopeWarning, __file__)])
            del caught[:]
            self.library.may_answer.set()
            for _ in range(3):
                model.classify("a.jpg")
            model.classify(["a.jpg"] * 100)
        self.assertEqual([str(one.message) for one in caught], ["large"])
        self.assertEqual(caught[0].filename, __file__)
        self.assertTrue(issubclass(hydrascope.HydrascopeWarning, UserWarning))
        self.assertEqual(model.facts["notes"], ["one", "needs `attn`"])

    def test_a_note_comes_before_the_answer(self) -> None:
        model = self.opened()
        with mock.patch.object(warnings, "showwarning", lambda *_, **__: self.library.may_answer.set()), \
                warnings.catch_warnings():
            warnings.simplefilter("always")
            begin = time.monotonic()
            model.classify("a.jpg")
        self.assertLess(time.monotonic() - begin, 10)

    def opened(self) -> hydrascope.Model:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return hydrascope.Model()

    def test_a_warning_that_is_an_error_closes_the_model(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with self.assertRaisesRegex(hydrascope.HydrascopeWarning, "one"):
                hydrascope.Model()
        self.assertEqual(self.library.closed, 1)

    def test_a_warning_that_is_an_error_ends_the_call(self) -> None:
        model = self.opened()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with self.assertRaisesRegex(hydrascope.HydrascopeWarning, "large"):
                model.classify("a.jpg")
        self.library.may_answer.set()
        model.close()

    def test_an_interrupt_does_not_wait_for_the_picture(self) -> None:
        model = self.opened()
        timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.classify("a.jpg")
        self.assertFalse(self.library.may_answer.is_set())
        self.library.may_answer.set()
        model.close()
        self.assertEqual(self.library.closed, 1)

    def test_a_long_call_says_how_far_it_is(self) -> None:
        model = self.opened()
        for wanted, is_terminal, text in ((None, True, "0 of 40 pictures"), (True, False, "0 of 40 pictures"), (None, False, ""),
                                          (False, True, "")):
            shown = io.StringIO()
            shown.isatty = lambda is_terminal=is_terminal: is_terminal
            self.library.may_answer.clear()
            threading.Timer(0.4, self.library.may_answer.set).start()
            with mock.patch.object(sys, "stderr", shown), mock.patch.object(_progress, "_PATIENCE", 0.1), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.classify([__file__] * 40, progress=wanted)
            self.assertEqual((text in shown.getvalue(), bool(shown.getvalue())), (True, bool(text)))
            self.assertTrue(shown.getvalue() == "" or shown.getvalue().endswith(" \r"))

    def test_layers_are_said_until_a_picture_is_done(self) -> None:
        shown = io.StringIO()
        with mock.patch.object(sys, "stderr", shown), mock.patch.object(_progress, "_PATIENCE", 0):
            for total in (1, 5):
                progress = _progress.Progress(total, True)
                progress.show(0)
                progress.show(0, (5, 12))
                progress.show(1, (6, 12))
                progress.end()
        said = [text.strip() for text in shown.getvalue().split("\r") if text.strip()]
        self.assertEqual(said, ["0 of 1 pictures, 0 s", "layer 5 of 12, 0 s", "1 of 1 pictures, 0 s, 0 s left",
                                "0 of 5 pictures, 0 s", "0 of 5 pictures, layer 5 of 12, 0 s", "1 of 5 pictures, 0 s, 0 s left"])

    def test_a_failed_picture_is_one_of_the_answers(self) -> None:
        self.library.may_answer.set()

        class Unreadable:
            def read(self) -> bytes:
                raise OSError("gone")

        pictures = ["a.jpg", None, Unreadable(), "b\0.jpg", "c.jpg"]
        model = self.opened()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with mock.patch.object(model_module._pictures, "_NOTHING") as nothing:
                nothing.ctypes.data_as.return_value = None
                answers = model.classify(pictures, on_error="skip")
            self.assertEqual([type(one.error) for one in answers],
                             [type(None), hydrascope.InvalidArgumentError, hydrascope.UnreadableError,
                              hydrascope.InvalidArgumentError, type(None)])
            self.assertEqual(answers[2].record["error"], {"code": "unreadable", "message": "the file cannot be read: gone (picture 2)"})
            with self.assertRaisesRegex(hydrascope.InvalidArgumentError, r"found NoneType \(picture 1\)"):
                model.classify(pictures)


def said(code: str, field: str, subject: str, text: str, hint: str = "") -> str:
    """A statement that writes an error as the program does."""
    error = {"error": {"code": code, "field": field, "subject": subject, "text": text, "hint": hint}}
    return f"sys.stderr.write({json.dumps(error, separators=(',', ':')) + chr(10)!r})"


class Processes(unittest.TestCase):
    def setUp(self) -> None:
        patched = mock.patch.object(_torch, "found", lambda: None)
        patched.start()
        self.addCleanup(patched.stop)

    def test_notes_are_warnings_and_the_rest_is_shown(self) -> None:
        tree(self, """
            sys.stderr.write('{"note":"epochs is small"}\\n1 of 2\\n')
            print("done", sys.argv[1:], os.environ["HYDRASCOPE_ERRORS"])
        """)
        with warnings.catch_warnings(record=True) as caught, mock.patch.object(sys, "stderr") as shown:
            warnings.simplefilter("always")
            self.assertEqual(hydrascope.run("train", epochs=1), "done ['train', '--epochs=1'] json\n")
        self.assertEqual([(str(one.message), one.category, one.filename) for one in caught],
                         [("epochs is small", hydrascope.HydrascopeWarning, __file__)])
        self.assertEqual("".join(call.args[0] for call in shown.write.call_args_list), "1 of 2\n")

    def test_failures(self) -> None:
        for script, kind, text, *written in (
                (said("invalid_argument", "img_size", "x", "expected a number (img_size x)", "say it") + "; sys.exit(2)",
                 hydrascope.InvalidArgumentError, "expected a number (img_size x)\nhint: say it"),
                ("print('a.jpg  failed'); " + said("decode_failed", "", "a.jpg", "it is cut (a.jpg)")
                 + "; " + said("empty", "", "b.jpg", "it is empty (b.jpg)") + "; sys.exit(3)", hydrascope.DecodeError,
                 "it is cut (a.jpg)", "a.jpg  failed"),
                ("sys.stderr.write('engine: no such library\\n'); sys.exit(127)", hydrascope.Error, "exit code 127: engine: no such library"),
                ("import os; os.kill(os.getpid(), 9)", hydrascope.Error, "ended by signal 9")):
            tree(self, script)
            with self.assertRaises(kind) as caught, mock.patch.object(sys, "stderr"):
                hydrascope.run("classify", img_size="x")
            self.assertEqual((type(caught.exception), str(caught.exception)), (kind, text))
            self.assertEqual(caught.exception.output, "".join(f"{line}\n" for line in written))

    def test_an_interrupt_ends_the_program_in_order(self) -> None:
        root = tree(self, """
            def stop(*_):
                open(sys.argv[1], "w").write("in order")
                sys.exit(130)
            signal.signal(signal.SIGINT, stop)
            sys.stderr.write("ready\\n")
            sys.stderr.flush()
            time.sleep(30)
        """)
        told = root / "told"
        with mock.patch.object(sys, "stderr") as shown, mock.patch("builtins.open", wraps=open) as opened:
            real = opened._mock_wraps

            def no_terminal(name: object, *rest: object, **options: object) -> object:
                if name == "/dev/tty":
                    raise OSError("no terminal")
                return real(name, *rest, **options)

            opened.side_effect = no_terminal
            shown.write.side_effect = lambda _: signal.raise_signal(signal.SIGINT)
            with self.assertRaises(KeyboardInterrupt):
                hydrascope.run(told)
        self.assertEqual(told.read_text(), "in order")


class Metadata(unittest.TestCase):
    CFG = {"architecture": "vit_tiny_patch16_224", "input_size": (3, 224, 224), "interpolation": "bicubic", "crop_pct": 0.9,
           "crop_mode": "center", "mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5), "test_input_size": (3, 288, 288)}

    def file(self, cfg: dict, size: tuple = (3, 224, 224), **more: str) -> dict[str, str]:
        return {"hydrascope.schema": "1", "transform": json.dumps(_metadata.transform_of(cfg, size)), **more}

    def test_a_transform_comes_back(self) -> None:
        for change in ({}, {"crop_pct": 0.95}, {"crop_pct": 1.0, "crop_mode": "squash"}, {"interpolation": "bilinear"},
                       {"mean": (0.48145466, 0.4578275, 0.40821073), "std": (0.26862954, 0.26130258, 0.27577711)},
                       {"test_input_size": (3, 320, 320), "test_crop_pct": 1.0}, {"crop_mode": "border"}):
            cfg = {**self.CFG, **change}
            back = _metadata.with_transform(self.CFG, self.file(cfg))
            self.assertEqual(back, cfg)
            self.assertEqual(_metadata.transform_of(back, (3, 224, 224)), _metadata.transform_of(cfg, (3, 224, 224)))

    def test_timms_defaults_where_it_says_nothing(self) -> None:
        self.assertEqual(_metadata.transform_of({"crop_pct": None}, (3, 96, 128)),
                         {"input_size": [3, 96, 128], "interpolation": "bicubic", "crop_pct": 0.875, "crop_mode": "center",
                          "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]})

    def test_grey(self) -> None:
        grey = _metadata.transform_of({**self.CFG, "mean": (0.25, 0.5, 0.75), "std": 0.5}, (1, 224, 224))
        self.assertEqual((grey["mean"], grey["std"]), ([0.5], [0.5]))
        self.assertEqual(_metadata.transform_of({"mean": (0.5,)}, (3, 224, 224))["mean"], [0.5, 0.5, 0.5])

    def test_what_is_not_ours_changes_nothing(self) -> None:
        self.assertEqual(_metadata.with_transform(self.CFG, {"transform": "{\"crop_pct\": 1.0}"}), self.CFG)

    def test_what_a_file_says_is_kept(self) -> None:
        given = self.file(self.CFG, license="mit", labels="imagenet1k", recipe="{}", parent_sha256="ab", agreement="91", arch="x",
                          created_by="hydrascope 0.1.0 convert", complete="yes", num_classes="1000", attention="hydra",
                          **{"hydrascope.config": json.dumps({"pos_interp": "tile", "depth": 12})})
        kept = _metadata.kept_of(given, 1000)
        self.assertEqual(_metadata.kept_metadata(kept, self.CFG, 1000),
                         {"license": "mit", "labels": "imagenet1k", "recipe": "{}", "parent_sha256": "ab"})
        self.assertEqual(_metadata.kept_config(kept), {"pos_interp": "tile"})
        self.assertNotIn("labels", _metadata.kept_metadata(kept, self.CFG, 7))

    def test_names_of_classes(self) -> None:
        kept = _metadata.kept_of(self.file(self.CFG, label_names='["a", "b"]'), 2)
        self.assertEqual(_metadata.kept_metadata(kept, {}, 2), {"label_names": '["a", "b"]'})
        self.assertEqual(_metadata.kept_metadata(kept, {}, 3), {})
        of_timm = {"label_names": ["n1", "n2"], "label_descriptions": {"n1": "otter, Lutra"}}
        self.assertEqual(_metadata.kept_metadata({}, of_timm, 2), {"label_names": '["n1 otter, Lutra", "n2"]'})
        self.assertEqual(_metadata.kept_metadata({}, of_timm, 3), {})

    def test_another_transformer_than_the_files_is_refused(self) -> None:
        usual = {"rel_pos": [], "pos_embed": "learned", "swiglu_mlp": False, "pos_interp": "timm"}
        wanted = {"global_pool": "avg", "layer_norm_eps": 1e-6, "arch": "a", "init_values": 1e-5}
        plain = {"rel_pos": ["none", "none"], "pos_embed": "learned", "pos_interp": "tile"}
        _metadata.check_same({**wanted, **plain}, {**wanted, "arch": "", "init_values": 1}, usual, "m")
        for field, value in (("rel_pos", [{"rule": "rope", "options": {}}]), ("pos_embed", "sincos"), ("swiglu_mlp", True)):
            with self.assertRaisesRegex(hydrascope.InvalidArgumentError, f"{field} .*, not "):
                _metadata.check_same({**wanted, **plain, field: value}, wanted, usual, "m")
        with self.assertRaisesRegex(hydrascope.InvalidArgumentError, r"global_pool avg, not token \(m\)"):
            _metadata.check_same(wanted, {**wanted, "global_pool": "token"}, usual, "m")
        with self.assertRaisesRegex(hydrascope.InvalidArgumentError, "its blocks are others"):
            _metadata.check_same(wanted, None, usual, "m")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell's job runs in the background
    unittest.main()
