"""The parts of the programs: NOTICE against what is linked, hardening, and results that are the same twice.

    python tests/supply_test.py PROGRAM

Standard library only; `readelf` comes with the compiler.
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TINY = ROOT / "tests" / "corpus" / "states" / "0.1" / "tiny"
PHOTO = ROOT / "assets" / "images" / "otter-head.jpg"
ROOMS = ("app", "kernels", "model", "viz")
# Headers of the C library, the compiler and the kernel.
SYSTEM = re.compile(r"^(arpa|linux|net|netinet|sys)/|^(cpuid|dlfcn|execinfo|fcntl|fnmatch|glob|immintrin|locale|malloc|math|poll|pthread|pwd|sched|signal"
                    r"|spawn|stddef|stdint|stdio|stdlib|string|termios|time|unistd|x86intrin)\.h$|^[a-z_]+$")
PROGRAM = Path()


def files() -> list[Path]:
    """The front, the engines, the library for programs of others, and the modules beside them."""
    found = [PROGRAM, PROGRAM.with_name("hydrascope-engine"), PROGRAM.with_name("hydrascope-trainer"), PROGRAM.with_name("libhydrascope.so.0"),
             *sorted(PROGRAM.parent.glob("libhydrascope_*.so"))]
    return [file for file in found if file.exists()]


@cache
def readelf(file: Path, *what: str) -> str:
    return subprocess.run(["readelf", "-W", *what, file], capture_output=True, text=True, check=True).stdout


def needed(file: Path) -> set[str]:
    """Libraries that it is linked with, without versions: "libjpeg.so"."""
    names = re.findall(r"\(NEEDED\).*\[(.+)\]", readelf(file, "-d"))
    return {name[: name.index(".so") + 3] for name in names}


def is_sanitized() -> bool:
    return bool(re.search(r"lib(asan|tsan|ubsan)", readelf(PROGRAM, "-d")))


class ThirdParties(unittest.TestCase):
    def setUp(self) -> None:
        text = (ROOT / "NOTICE").read_text().partition("What the programs are linked with")[2]
        entries = re.findall(r"^- (.+?):\s", text, re.MULTILINE | re.DOTALL)
        self.listed = [name.strip() for entry in entries for name in entry.split(",")]
        self.cuda = {name for entry in entries if "libcudart" in entry for name in map(str.strip, entry.split(","))}

    def test_what_is_linked_is_listed(self) -> None:
        listed = {name for name in self.listed if ".so" in name}
        linked = set().union(*map(needed, files()))
        allowed = {"libasan.so", "libubsan.so", "libtsan.so"} if is_sanitized() else set()
        self.assertLessEqual(linked, listed | allowed)
        if any("opencv" in name for name in linked):  # the build with everything
            self.assertLessEqual(listed - self.cuda, linked)

    def test_what_is_included_is_listed(self) -> None:
        prefixes = [name for name in self.listed if ".so" not in name]
        used = set()
        for room in ROOMS:
            for file in (ROOT / room).rglob("*"):
                if file.suffix not in (".cpp", ".h", ".cu", ".inc"):
                    continue
                for header in re.findall(r"^\s*#\s*include\s*<([^>]+)>", file.read_text(), re.MULTILINE):
                    if SYSTEM.search(header):
                        continue
                    found = [name for name in prefixes if header.startswith(name)]
                    self.assertTrue(found, f"{file.relative_to(ROOT)} includes {header}, which NOTICE does not list")
                    used.update(found)
        self.assertEqual(set(prefixes), used, "NOTICE lists what nothing includes")

    def test_what_pip_installs_is_locked_by_hashes(self) -> None:
        locked = re.compile(r"[a-z0-9-]+==\S+( --hash=sha256:[0-9a-f]{64})+|[a-z0-9-]+ +\S+ +[0-9a-f]{64} +(bootstrap|always|cuda)")
        for lock in (ROOT / "scripts").glob("*.lock"):
            for line in lock.read_text().splitlines():
                self.assertTrue(line.startswith("#") or locked.fullmatch(line), f"{lock.name}: {line}")
        installs = [line for script in (ROOT / "scripts").rglob("*.sh")
                    for line in script.read_text().replace("\\\n", "").splitlines() if "pip install" in line]
        self.assertEqual(len(installs), 2)
        for line in installs:
            self.assertIn("--require-hashes", line)


class Hardening(unittest.TestCase):
    def test_no_run_path_leads_to_the_current_folder(self) -> None:
        checked = []
        for file in PROGRAM.parent.rglob("*"):
            if "CMakeFiles" in file.parts or file.is_symlink() or not file.is_file():
                continue
            with file.open("rb") as start:
                if start.read(4) != b"\x7fELF":
                    continue
            checked.append(file.resolve())
            for path in re.findall(r"R(?:UN)?PATH\).*\[(.*)\]", readelf(file, "-d")):
                for part in path.split(":"):
                    self.assertRegex(part, r"^(/|\$ORIGIN(/|$))", f"{file.name}: run path {path}")
        self.assertLessEqual({file.resolve() for file in files()}, set(checked))

    def test_addresses_relocations_and_stack(self) -> None:
        self.assertGreaterEqual(len(files()), 2)
        for file in files():
            with self.subTest(file.name):
                dynamic, segments = readelf(file, "-d"), readelf(file, "-l")
                self.assertTrue(re.search(r"Type: +DYN", readelf(file, "-h")), "not at any address")
                self.assertTrue("GNU_RELRO" in segments, "relocations stay writable")
                self.assertTrue(re.search(r"BIND_NOW|Flags:.* NOW", dynamic), "functions are resolved late")
                self.assertTrue(re.search(r"GNU_STACK .* RW +0x", segments), "the stack is executable")
                self.assertFalse("TEXTREL" in dynamic, "code is relocated")
                if ".so" not in file.name:
                    self.assertTrue(re.search(r"Flags:.* PIE", dynamic), "not a PIE")

    def test_buffers_are_checked(self) -> None:
        if is_sanitized() or not re.search(r"CMAKE_BUILD_TYPE:\w+=Release", (PROGRAM.parent / "CMakeCache.txt").read_text()):
            self.skipTest("a sanitizer, or no optimisation, takes the place of these checks")
        for file in files()[:3]:
            symbols = set(re.findall(r" UND (\w+)", readelf(file, "--dyn-syms")))
            self.assertTrue("__stack_chk_fail" in symbols, f"{file.name}: no -fstack-protector-strong")
            self.assertTrue(any(name.endswith("_chk") for name in symbols), f"{file.name}: no _FORTIFY_SOURCE")


class Reproducible(unittest.TestCase):
    """The same command gives the same bytes, in another folder and at another time."""

    def twice(self, *words: str) -> None:
        found = []
        for _ in range(2):
            with tempfile.TemporaryDirectory() as name:
                done = subprocess.run([PROGRAM, *words], cwd=name, capture_output=True, text=True, timeout=240, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                found.append({str(file.relative_to(name)): file.read_bytes() for file in Path(name).rglob("*") if file.is_file()})
        self.assertTrue(found[0])
        self.assertEqual(found[0].keys(), found[1].keys())
        for file, content in found[0].items():
            self.assertTrue(content == found[1][file], f"{words[0]}: {file} differs")

    def test_weights(self) -> None:
        self.twice("convert", TINY, "out.safetensors", "--dtype", "float16")
        self.twice("models", "create", "--arch", "vit_tiny_patch32_32", "--dtype", "float16", "--set", "seed=5", "-o", "new.safetensors")

    def test_pictures_and_pages(self) -> None:
        self.twice("visualize", PHOTO, "-m", TINY, "-o", ".", "--save-raw", "--device", "cpu", "--precision", "float32", "--threads", "1")


if __name__ == "__main__":
    PROGRAM = Path(os.path.abspath(sys.argv.pop(1)))
    unittest.main()
