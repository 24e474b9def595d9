"""The installed tree on a machine that has nothing else.

    python tests/install_test.py BUILD_FOLDER [--package]

`cmake --install`, or CPack's tarball, into a folder that is then moved. The program runs in a root made of it and of
the C and C++ libraries: no build tree, no caches, no packages. Exits with 77 where this user cannot make one.
Standard library only; `readelf` comes with the compiler.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "tests" / "corpus" / "pictures" / "good"
# The libraries of every system with programs in C++.
SYSTEM = ("ld-linux-x86-64.so.2", "libc.so.6", "libm.so.6", "libdl.so.2", "librt.so.1", "libutil.so.1", "libpthread.so.0",
          "libgcc_s.so.1", "libstdc++.so.6")
# proc and dev of the machine: the program finds itself through one, and writes to the other.
ENTER = 'mount --rbind /proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"'
COMPLETIONS = {"bash": "bash-completion/completions/hydrascope", "zsh": "zsh/site-functions/_hydrascope",
               "fish": "fish/vendor_completions.d/hydrascope.fish"}
BUILD = Path()
IS_PACKAGE = False


def run(*words: object, **options: object) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, timeout=300, **options)


def enter(root: Path, *words: object) -> subprocess.CompletedProcess:
    """A command inside `root`, which is all that it sees."""
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    return run("unshare", "--mount", *user, "sh", "-c", ENTER, root, *words,
               env={"PATH": os.environ["PATH"], "HOME": "/home"})


def make_root(root: Path) -> None:
    for folder in ("proc", "dev", "tmp", "home", "lib", "pictures"):
        (root / folder).mkdir()
    (root / "lib64").symlink_to("lib")
    known = run("ldconfig", "-p", env={"PATH": os.environ["PATH"] + ":/sbin:/usr/sbin"}).stdout
    for name in SYSTEM:
        found = re.search(rf"^\s*{re.escape(name)} \(libc6,x86-64.*=> (\S+)$", known, re.MULTILINE)
        if found:
            shutil.copy(found[1], root / "lib" / name)


def dynamic(file: Path) -> str:
    return run("readelf", "-W", "-d", file).stdout


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory(prefix="hydrascope-install-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.root = Path(cls.folder.name) / "root"
        cls.root.mkdir()
        make_root(cls.root)
        cls.tree = cls.root / "moved"
        first = cls.root / "first"
        if IS_PACKAGE:
            first.mkdir()
            made = run("cpack", "--config", BUILD / "CPackConfig.cmake", "-B", first)
            package, = first.glob("*.tar.gz")
            print(f"{package.name}: {package.stat().st_size / 1e6:.0f} MB", flush=True)
            unpacked = run("tar", "-xf", package, "-C", first)
            assert unpacked.returncode == 0, unpacked.stderr
            package.with_name(package.name.removesuffix(".tar.gz")).rename(cls.tree)
            shutil.rmtree(first)
        else:
            made = run("cmake", "--install", BUILD, "--prefix", first)
            first.rename(cls.tree)
        assert made.returncode == 0, made.stderr[-2000:]

    def program(self, *words: object, code: int = 0) -> str:
        """The output of the installed program, on a machine of its own."""
        done = enter(self.root, "/moved/bin/hydrascope", *words)
        self.assertEqual(done.returncode, code, done.stderr + done.stdout[-2000:])
        return done.stdout + done.stderr if code else done.stdout

    def picture(self, name: str) -> str:
        shutil.copy(PICTURES / name, self.root / "pictures")
        return f"/pictures/{name}"

    def decoder(self) -> str:
        return json.loads(self.program("doctor", "--format", "json"))["decoder"]

    def test_pictures_are_classified_as_by_the_build(self) -> None:
        words = ("classify", "--device", "cpu", "--precision", "float32", "--threads", "1", "--format", "json")
        image = "share/hydrascope/images/otter-head.jpg"
        expected = json.loads(run(BUILD / "hydrascope", *words, self.tree / image).stdout)
        found = json.loads(self.program(*words, f"/moved/{image}"))
        self.assertEqual(found[0]["top"], expected[0]["top"])

    def test_maps_are_drawn(self) -> None:
        for name, begin in (("heat.png", b"\x89PNG\r\n\x1a\n"), ("heat.jpg", b"\xff\xd8\xff")):
            self.program("visualize", "/moved/share/hydrascope/images/otter-head.jpg", "-o", f"/{name}")
            self.assertTrue((self.root / name).read_bytes().startswith(begin), name)

    def test_its_answers_are_the_stored_ones(self) -> None:
        self.program("doctor", "--self-test")

    def test_what_needs_no_opencv_is_read_without(self) -> None:
        for name in ("alpha.png", "deep_grey.png", "colour.bmp", "first_of_two.gif", "baseline.jpg", "cmyk.jpg"):
            with self.subTest(name):
                self.program("classify", "--format", "json", self.picture(name))

    def test_what_needs_opencv_says_which_package_has_it(self) -> None:
        if "cannot be loaded" not in self.decoder():
            self.skipTest("this build has no OpenCV")
        said = self.program("classify", self.picture("lossy.webp"), code=3)
        self.assertRegex(said, r"OpenCV cannot be loaded: libopencv_\w+\.so")
        self.assertIn("libopencv-imgcodecs406", said)

    def test_everything_that_is_linked_is_in_the_tree(self) -> None:
        libraries = {file.name for file in (self.tree / "lib" / "hydrascope").iterdir()}
        checked = 0
        for file in self.tree.rglob("*"):
            if not file.is_file() or file.read_bytes()[:4] != b"\x7fELF":
                continue
            text = dynamic(file)
            for path in re.findall(r"R(?:UN)?PATH\).*\[(.*)\]", text):
                for part in path.split(":"):
                    self.assertTrue(part.startswith("$ORIGIN"), f"{file.name}: run path {path}")
            for needed in re.findall(r"\(NEEDED\).*\[(.+)\]", text):
                is_opencv = needed.startswith("libopencv_") and file.name.startswith("libhydrascope_opencv_")
                self.assertTrue(needed in libraries or needed in SYSTEM or is_opencv, f"{file.name} needs {needed}")
            checked += 1
        self.assertGreaterEqual(checked, 7)

    def test_a_folder_beside_the_tree_is_not_taken_for_its_assets(self) -> None:
        (self.root / "assets").mkdir()
        shutil.copytree(self.tree / "share/hydrascope/labels", self.root / "assets/labels")
        shutil.copy(self.tree / "share/hydrascope/self_test.safetensors", self.root / "assets")
        self.assertEqual(json.loads(self.program("doctor", "--format", "json"))["assets"], "/moved/share/hydrascope")

    def test_every_library_of_the_tree_is_in_the_notice(self) -> None:
        notice = (self.tree / "share/doc/hydrascope/NOTICE").read_text()
        for file in (self.tree / "lib" / "hydrascope").iterdir():
            name = file.name[: file.name.index(".so") + 3]
            if not name.startswith("libhydrascope"):
                self.assertIn(name, notice)
        licences = {str(file.relative_to(self.tree / "share/doc/hydrascope/licences"))
                    for file in (self.tree / "share/doc/hydrascope/licences").rglob("*") if file.is_file()}
        for wanted in ("libstb-dev", "libhwy-dev", "libcxxopts-dev", "nlohmann-json3-dev", "torch/LICENSE", "torch/NOTICE"):
            self.assertIn(wanted, licences)

    def test_words_are_completed(self) -> None:
        for shell, place in COMPLETIONS.items():
            script = self.tree / "share" / place
            self.assertEqual(script.read_text(), run(BUILD / "hydrascope", "completion", shell).stdout)
            if shutil.which(shell):
                self.assertEqual(run(shell, "-n", script).returncode, 0, shell)
        asked = f"source {self.tree / 'share' / COMPLETIONS['bash']}; COMP_WORDS=(hydrascope cla); COMP_CWORD=1; " \
                'PATH=$1:$PATH; _hydrascope; echo "${COMPREPLY[@]}"'
        self.assertEqual(run("bash", "-c", asked, "bash", self.tree / "bin").stdout, "classify\n")

    def test_pages_come_along(self) -> None:
        pages = self.tree / "share/doc/hydrascope"
        for page in ("README.md", "CHANGELOG.md", "LICENSE", "docs/cli.md"):
            self.assertEqual((pages / page).read_bytes(), (ROOT / page).read_bytes())


if __name__ == "__main__":
    IS_PACKAGE = "--package" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--package"]
    BUILD = Path(os.path.abspath(sys.argv.pop(1)))
    if re.search(r"HYDRASCOPE_SANITIZE:\w+=.+", (BUILD / "CMakeCache.txt").read_text()):
        print("skipped: a build with sanitizers is not installed")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as made:
        make_root(Path(made))
        tried = enter(Path(made), "/lib/ld-linux-x86-64.so.2", "--version")
        if tried.returncode != 0:
            print("skipped: no root of its own for a program:", " ".join(tried.stderr.split()))
            sys.exit(77)
    unittest.main()
