"""The set-up of the Python package's tests: the package, of this checkout where --tree names a build's folder.

Ends the test with 77 (CTest: skipped) where this Python lacks NumPy or the PyTorch that LibTorch is.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
parser = argparse.ArgumentParser()
parser.add_argument("--tree", type=Path)
parser.add_argument("--torch", default="2.11")
given, rest = parser.parse_known_args()
if given.tree:
    os.environ["HYDRASCOPE_TREE"] = str(given.tree)
    sys.path.insert(0, str(ROOT / "app" / "python"))
try:
    import numpy as np  # noqa: F401
    import safetensors.torch  # noqa: F401
    import torch
except ImportError as error:
    print(f"skipped: {sys.executable}: {error}")
    sys.exit(77)
if not torch.__version__.startswith(given.torch):
    print(f"skipped: PyTorch is {torch.__version__}, not {given.torch}")
    sys.exit(77)
try:
    import timm
except ImportError:
    timm = None
try:
    import PIL.Image
except ImportError:
    PIL = None

OTTER = ROOT / "assets" / "images" / "otter-head.jpg"
EXACT = {"device": "cpu", "precision": "float32", "deterministic": True}
WORDS = ["--device", "cpu", "--precision", "float32", "--set", "deterministic=on"]

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def command(*words: object) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "hydrascope", *map(str, words)], capture_output=True, text=True, check=False,
                          timeout=300, env=ENVIRONMENT)


def record(*words: object) -> dict:
    done = command(*words, "--format", "jsonl", "--set", "progress=off")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def timeless(one: dict) -> dict:
    return {key: value for key, value in one.items() if key != "seconds"}
