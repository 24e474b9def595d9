"""The installed library, used by a program of somebody else.

    python tests/example/example_test.py BUILD_FOLDER COMPILER

Installs the tree into a folder that is then moved, builds the example beside this file against it through find_package,
and runs it. Standard library only; `readelf` and `nm` come with the compiler.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OTTER = ROOT / "assets" / "images" / "otter-head.jpg"
BUILD, COMPILER = Path(), ""

LAYERS = r"""
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.hydrascope_layers.restype = library.hydrascope_error_text.restype = ctypes.c_char_p
for before in b"[[[", b"", b"[\xff]", None:
    assert library.hydrascope_layers(before, None, ctypes.c_size_t(0)) is None
    print(library.hydrascope_error_text().decode())
"""

NULLS = """
import ctypes, json, sys
from ctypes import byref, c_char_p, c_int64, c_size_t, c_void_p

class Picture(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("path", c_char_p), ("bytes", c_void_p), ("num_bytes", c_size_t), ("pixels", c_void_p),
                ("height", c_int64), ("width", c_int64), ("row_stride", c_int64)]

library = ctypes.CDLL(sys.argv[1])
code, text = library.hydrascope_error_code, library.hydrascope_error_text

def fails(name, *given, result=None):
    # Another code comes before, so the one behind is this call's.
    assert library.hydrascope_config(b"/nonexistent") is None and code() == b"not_found", code()
    found = getattr(library, "hydrascope_" + name)(*given)
    assert found == result and code() == b"invalid_argument", (name, given, found, code())

for name, gives_pointer, are_pointers in json.loads(sys.argv[2]):
    getattr(library, name).restype = c_void_p if gives_pointer else c_int64
    getattr(library, name).argtypes = [c_void_p if is_pointer else c_size_t for is_pointer in are_pointers]
library.hydrascope_ask.restype = ctypes.c_int
for function in (code, text, library.hydrascope_answer_error_code, library.hydrascope_answer_error_text):
    function.restype = c_char_p
others = {"ask": 1, "layers_done": -1, "answer_error_code": b"invalid_argument",
          "answer_error_text": b"expected a pointer, found null (pointer 1 of the call)"}
for name, gives_pointer, are_pointers in json.loads(sys.argv[2]):
    name = name.partition("_")[2]
    nulls = [None if is_pointer else 3 for is_pointer in are_pointers]
    if name in ("close", "free"):
        getattr(library, "hydrascope_" + name)(*nulls)
    elif any(are_pointers):
        fails(name, *nulls, result=others.get(name))

options = [b"-m", sys.argv[3].encode(), b"--device", b"cpu", b"--crop-pct", b"1", b"--set", b"mean=0,0,0", b"--set", b"std=1,1,1"]
model = library.hydrascope_open((c_char_p * len(options))(*options), len(options), 0)
assert model, text()
pixels = ctypes.create_string_buffer(bytes(range(48)), 48)
picture, answer, count = Picture(pixels=ctypes.addressof(pixels), height=4, width=4), c_void_p(), c_size_t(7)
assert library.hydrascope_ask(model, byref(picture), 1, None, 0, 0, byref(answer)) == 0, text()
assert library.hydrascope_answer_error_code(answer) is None
for name in ("top", "logits", "embedding", "maps"):
    fails("answer_" + name, answer, None)
    fails("answer_" + name, None, byref(count))
    assert count.value == 0
    count.value = 7
fails("pictures", b"a.png", None)
fails("pictures", None, byref(count))
fails("layers_done", model, None, result=-1)
null_word, one = (c_char_p * 1)(None), byref(picture)
fails("open", null_word, 1, 0)
fails("layers", b'["softmax"]', null_word, 1)
fails("layers", b'["softmax"]', None, 1)
other = c_void_p()
for given in ((None, one, 1, None, 0, 0, byref(other)), (model, None, 1, None, 0, 0, byref(other)), (model, one, 1, None, 1, 0, byref(other)),
              (model, one, 1, null_word, 1, 0, byref(other)), (model, one, 1, None, 0, 0, None)):
    fails("ask", *given, result=1)
height, width = c_int64(), c_int64()
drawn = [answer, None, 0, one, None, 0, byref(height), byref(width)]
assert ctypes.string_at(library.hydrascope_draw(*drawn), 48) == pixels.raw and (height.value, width.value) == (4, 4)
for place, count_of in ((0, None), (1, 2), (3, None), (4, 5), (6, None), (7, None)):
    given = [None if i == place else 1 if i == count_of else word for i, word in enumerate(drawn)]
    fails("draw", *given)
for size in ((4, 4, 2**63 - 1), (4, 4, -2**63), (4, 4, 2**60), (0, 4, 0), (4, -1, 0), (2**62, 2**62, 0), (4, 2**63 - 1, 0)):
    picture.height, picture.width, picture.row_stride = size
    fails("ask", model, one, 1, None, 0, 0, byref(other), result=1)
    fails("draw", *drawn)
picture = Picture()
fails("ask", model, byref(picture), 1, None, 0, 0, byref(other), result=1)
assert library.hydrascope_ask(model, None, 0, None, 0, 0, None) == 0
library.hydrascope_free(answer)
library.hydrascope_close(model)
"""


def run(*words: object, **options: object) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, timeout=300, **options)


def run_well(*words: object) -> str:
    done = run(*words)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


class Example(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory(prefix="hydrascope-example-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.work = Path(cls.folder.name)
        run_well("cmake", "--install", BUILD, "--prefix", cls.work / "first")
        cls.tree = cls.work / "moved"
        (cls.work / "first").rename(cls.tree)
        run_well("cmake", "-S", HERE, "-B", cls.work / "build", f"-DCMAKE_PREFIX_PATH={cls.tree}",
                 f"-DCMAKE_CXX_COMPILER={COMPILER}", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wpedantic -Werror")
        run_well("cmake", "--build", cls.work / "build")
        cls.program = cls.work / "build" / "example"

    def test_says_what_the_program_says(self) -> None:
        said = run_well(self.program, OTTER)
        label, percent = re.match(r"(.+) ([\d.]+) %\n  look at x \d+, y \d+\n$", said).groups()
        top = run_well(self.tree / "bin" / "hydrascope", "classify", "--device", "cpu", "--topk", "1", OTTER)
        self.assertIn(label, top)
        self.assertAlmostEqual(float(percent), float(re.search(r"([\d.]+) %", top)[1]), delta=1)

    def test_errors_have_a_code_and_the_programs_words(self) -> None:
        broken = self.work / "broken.jpg"
        broken.write_bytes(OTTER.read_bytes()[:2000])
        done = run(self.program, broken)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, "^decode_failed: ")

    def test_c_compilers_take_the_header(self) -> None:
        source = self.work / "user.c"
        source.write_text("#include <hydrascope/hydrascope.h>\nconst char* version(void) { return hydrascope_version(); }\n")
        run_well("cc", "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{self.tree / 'include'}", "-c", source,
                 "-o", self.work / "user.o")

    def test_null_pointers_are_errors(self) -> None:
        """Each function of the header with null for all of its pointers, and where several are there, for one."""
        header = (self.tree / "include" / "hydrascope" / "hydrascope.h").read_text()
        functions = re.findall(r"HYDRASCOPE_API ([\w\s*]+?)(hydrascope_\w+)\(([^)]*)\);", header)
        self.assertEqual(len(functions), header.count("HYDRASCOPE_API ") - 1)
        words = [[name, "*" in result, ["*" in parameter for parameter in parameters.split(",") if parameter != "void"]]
                 for result, name, parameters in functions]
        tiny = ROOT / "tests" / "corpus" / "states" / "0.1" / "tiny"
        done = run(sys.executable, "-B", "-c", NULLS, self.tree / "lib" / "libhydrascope.so.0", json.dumps(words), tiny)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)

    def test_layers_that_are_no_json_are_named(self) -> None:
        done = run(sys.executable, "-B", "-c", LAYERS, self.tree / "lib" / "libhydrascope.so.0")
        self.assertEqual(done.stdout.splitlines(), [
            "the list of layers: not valid JSON: unexpected at byte 3: its end (layers)",
            "the list of layers: not valid JSON: unexpected at byte 0: its end (layers)",
            "the list of layers: not valid UTF-8 at byte 1 (layers)",
            "expected a pointer, found null (pointer 1 of the call)"])

    def test_exports_its_functions_alone(self) -> None:
        symbols = run_well("nm", "-D", "--defined-only", self.tree / "lib" / "libhydrascope.so.0").splitlines()
        names = [line.split()[-1] for line in symbols if line.split()[1] != "A"]
        self.assertGreater(len(names), 10)
        self.assertEqual([name for name in names if not name.startswith("hydrascope_")], [])

    def test_the_example_is_short(self) -> None:
        self.assertLess(len((HERE / "example.cpp").read_text().splitlines()), 50)


if __name__ == "__main__":
    BUILD, COMPILER = Path(sys.argv.pop(1)), sys.argv.pop(1)
    if shutil.which("cmake") is None:
        print("skipped: no cmake")
        sys.exit(77)
    unittest.main()
