"""The wheel, installed: scripts/make_wheel.sh, a virtual environment, and the package's tests in it.

    python tests/app/python/wheel_test.py BUILD_FOLDER

Run by a Python that has PyTorch; what the environment needs besides the wheel is that Python's. Exits with 77 where there
is no such Python, or where the wheel's tools cannot be had.
"""

import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SKIPPED = 77
try:
    import torch
except ImportError as error:
    print(f"skipped: {sys.executable}: {error}")
    sys.exit(SKIPPED)


def check(condition: bool, text: str) -> None:
    if not condition:
        sys.exit(f"failed: {text}")


def run(*words: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in words], check=False, timeout=900, env=env, capture_output=True, text=True)


def main(build: Path) -> int:
    with tempfile.TemporaryDirectory(prefix="hydrascope-wheel-") as name:
        folder = Path(name)
        made = run(ROOT / "scripts" / "make_wheel.sh",
                   env={**os.environ, "HYDRASCOPE_BUILD": str(build), "HYDRASCOPE_WHEEL": str(folder)})
        if made.returncode == SKIPPED:
            print(made.stdout.strip())
            return SKIPPED
        check(made.returncode == 0, made.stderr)
        wheel, = folder.glob("*.whl")
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
        names = zipfile.ZipFile(wheel).namelist()
        check(not any(part in one for one in names for part in ("libtorch", "libc10", "libgomp", "libcud")), "LibTorch is in it")
        for wanted in ("hydrascope/py.typed", "hydrascope/bin/hydrascope", "hydrascope/lib/libhydrascope.so.0", "dist-info/licenses/NOTICE"):
            check(any(wanted in one for one in names), f"{wanted} is missing")

        text, = (zipfile.ZipFile(wheel).read(one).decode() for one in names if one.endswith("dist-info/METADATA"))
        head = text.partition("\n\n")[0].splitlines()
        named = {one.removeprefix("License-File: ") for one in head if one.startswith("License-File: ")}
        held = {one.partition("dist-info/licenses/")[2] for one in names} - {""}
        check(named == held, f"License-File names {sorted(named)}, the wheel holds {sorted(held)}")

        run(sys.executable, "-m", "venv", folder / "venv")
        python = folder / "venv" / "bin" / "python"
        site, = (folder / "venv" / "lib").glob("python3*/site-packages")
        for one in Path(torch.__file__).parents[1].iterdir():
            if not (site / one.name).exists() and one.name != "__pycache__":
                (site / one.name).symlink_to(one)
        installed = run(python, "-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", wheel)
        check(installed.returncode == 0, installed.stderr)
        for file in site.glob("hydrascope*/**/*"):
            if file.is_file() and file.read_bytes()[:4] == b"\x7fELF":
                paths = re.findall(r"R(?:UN)?PATH\).*\[(.*)\]", run("readelf", "-W", "-d", file).stdout)
                check(all(part.startswith("$ORIGIN") for path in paths for part in path.split(":")), f"{file.name}: run path {paths}")
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("HYDRASCOPE", "PYTHON", "LD_"))}
        answer = run(folder / "venv" / "bin" / "hydrascope", "classify", ROOT / "assets" / "images" / "otter-head.jpg", env=clean)
        check(answer.returncode == 0 and "otter" in answer.stdout, answer.stdout + answer.stderr)
        for name in ("package_test.py", "package_edges_test.py", "package_timm_test.py"):
            tests = run(python, "-B", ROOT / "tests" / "app" / "python" / name, "--torch",
                        ".".join(torch.__version__.split(".")[:2]), env=clean)
            print(tests.stderr[-3000:])
            check(tests.returncode == 0, f"{name}, installed")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
