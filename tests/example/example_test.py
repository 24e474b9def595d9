"""The installed library, used by a program of somebody else.

    python tests/example/example_test.py BUILD_FOLDER COMPILER

Installs the tree into a folder that is then moved, builds the example beside this file against it through find_package,
and runs it. Standard library only; `readelf` and `nm` come with the compiler.
"""

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
