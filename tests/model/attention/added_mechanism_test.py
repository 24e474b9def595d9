"""A mechanism with kernels on the CPU is three new files, and no file is edited.

    python tests/model/attention/added_mechanism_test.py BUILD_FOLDER

The files of added/ go into a copy of the tree, which the real CMake files configure. The one object that the build lacks
is compiled there and linked to the build's other objects: the program with it computes by the new kernels, and the
conformance tests with it test them. Standard library only. Without Ninja: skipped.
"""

import array
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
ADDED = Path(__file__).resolve().parent / "added"
OTTER = ROOT / "assets" / "images" / "otter-head.jpg"
BUILD = Path()
NAME = "dot"


def run(*words: object, **options: object) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, timeout=500, **options)


def run_well(*words: object, **options: object) -> str:
    done = run(*words, **options)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def floats_of(path: Path) -> array.array:
    """The values of an .npy file of float32."""
    data = path.read_bytes()
    return array.array("f", data[10 + int.from_bytes(data[8:10], "little"):])


def copy_tree(to: Path) -> None:
    """Links to all files; folders are the copy's own where the mechanism goes."""
    for path in ROOT.iterdir():
        if path.name in {"kernels", "model"}:
            for source in (source for source in path.rglob("*") if source.is_file()):
                target = to / source.relative_to(ROOT)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(source)
        elif path.name not in {".git", "build"}:
            (to / path.name).symlink_to(path)


class AddedMechanism(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory(prefix="hydrascope-mechanism-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.work = Path(cls.folder.name)
        cls.tree = cls.work / "tree"
        cls.tree.mkdir()
        copy_tree(cls.tree)
        cls.files = sorted(path.relative_to(ADDED) for path in ADDED.rglob("*") if path.is_file())
        for name in cls.files:
            target = cls.tree / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("x") as file:  # fails for a file that is there already
                file.write((ADDED / name).read_text())
        cls.configure()
        cls.compile()

    @classmethod
    def configure(cls) -> None:
        """As the build was configured, but for the parts that no mechanism needs."""
        cache = dict(re.findall(r"^(CMAKE_BUILD_TYPE|CMAKE_CXX_COMPILER|HYDRASCOPE_\w+):\w+=(.*)$",
                                (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE))
        cache |= {"HYDRASCOPE_TESTS": "OFF", "HYDRASCOPE_BENCH": "OFF", "HYDRASCOPE_UNITY": "OFF",
                  "CMAKE_DISABLE_PRECOMPILE_HEADERS": "ON"}
        run_well("cmake", "-G", "Ninja", "-S", cls.tree, "-B", cls.work / "build",
                 *(f"-D{key}={value}" for key, value in cache.items()))
        commands = json.loads((cls.work / "build" / "compile_commands.json").read_text())
        # Sources that the build's tree does not have.
        cls.new = [command for command in commands if (name := Path(command["file"])).is_relative_to(cls.tree)
                   and not (ROOT / name.relative_to(cls.tree)).exists()]

    @classmethod
    def compile(cls) -> None:
        cls.objects = []
        for index, command in enumerate(cls.new):
            made = cls.work / f"{index}.o"
            words = shlex.split(command["command"])
            words[words.index("-o") + 1] = str(made)
            run_well(*words, cwd=command["directory"])
            cls.objects.append(str(made))

    @classmethod
    def link(cls, target: str) -> Path:
        """That program of the build, with the new objects."""
        line = run_well("ninja", "-C", BUILD, "-t", "commands", target).splitlines()[-1]
        words = shlex.split(line.removeprefix(": && ").removesuffix(" && :"))
        made = cls.work / Path(target).name
        words[words.index("-o") + 1] = str(made)
        at = next(index for index, word in enumerate(words) if word.endswith(".o"))
        run_well(*words[:at], *cls.objects, *words[at:], cwd=BUILD)
        return made

    def test_cmake_finds_the_files(self) -> None:
        self.assertEqual(len(self.files), 3)
        self.assertEqual([str(Path(command["file"]).relative_to(self.tree)) for command in self.new],
                         [str(name) for name in self.files if name.suffix == ".cpp"])

    def test_the_reading_list_is_short(self) -> None:
        guide = (ROOT / "docs" / "adding_a_mechanism.md").read_text()
        most = int(re.search(r"at most (\d+) lines", guide)[1])
        headers = ["model/attention/attention.h", "model/attention/kernel_form.h", "model/inference/cpu/mixing.h",
                   "model/inference/cpu/tile_shape.h"]
        files = [ROOT / name for name in headers] + [ADDED / name for name in self.files]
        self.assertLessEqual(sum(len(file.read_text().splitlines()) for file in files), most)

    def test_the_program_computes_by_its_kernels(self) -> None:
        program = self.link("hydrascope-engine")
        for module in BUILD.glob("libhydrascope_opencv_*.so"):
            (self.work / module.name).symlink_to(module)
        environment = os.environ | {"HYDRASCOPE_ASSETS": str(ROOT / "assets")}
        self.assertRegex(run_well(program, "models", "list", env=environment), rf"\n\w+ +{NAME} ")
        for attention in (NAME, f"{NAME}:last2"):
            logits = {}
            for kernels in ("fused", "reference"):
                file = self.work / f"{kernels}.npy"
                # `fused` is an error for a layer without kernels.
                (record,) = json.loads(run_well(
                    program, "classify", "--device", "cpu", "--precision", "float32", "--attn", attention, "--set", f"kernels={kernels}",
                    "--format", "json", "--save-logits", file, OTTER, env=environment))
                self.assertIn(NAME, record["attention"])
                logits[kernels] = floats_of(file)
                file.unlink()
            largest = max(abs(value) for value in logits["reference"])
            self.assertGreater(largest, 0.1)
            for one, other in zip(logits["fused"], logits["reference"], strict=True):
                self.assertAlmostEqual(one, other, delta=1e-4 * largest)

    def test_the_conformance_tests_run_on_it(self) -> None:
        program = self.link("attention_tests")
        suites: dict[str, set[str]] = {}
        for line in run_well(program, "--gtest_list_tests").splitlines():
            word = line.split("#")[0].strip()
            if not line.startswith(" "):
                suite = word
            elif suite.startswith("Registry/"):
                suites.setdefault(suite, set()).add(word.rpartition("/")[2])
        self.assertGreaterEqual(len(suites), 4)
        for suite, cases in suites.items():
            self.assertIn(NAME, cases, suite)
        done = run(program, f"--gtest_filter=Registry/*/{NAME}")
        self.assertEqual(done.returncode, 0, done.stdout[-4000:])
        self.assertRegex(done.stdout, r"\[  PASSED  \] \d\d+ tests")


if __name__ == "__main__":
    BUILD = Path(sys.argv.pop(1)).resolve()
    if shutil.which("ninja") is None or not (BUILD / "build.ninja").exists():
        print("SKIPPED: the build is not Ninja's")
        sys.exit(77)
    unittest.main()
