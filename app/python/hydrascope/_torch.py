"""The PyTorch that is here, and the one that the library was built for.

They are compared before the library is loaded: with another version that ends in an undefined symbol.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import sys
from pathlib import Path

from . import _library
from .errors import Error, TorchError


def found() -> str | None:
    """The version that is imported, or else the one that would be; nothing where there is none, or it does not say it."""
    version = getattr(sys.modules.get("torch"), "__version__", None)
    if version is not None:
        return str(version)
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return None


def built() -> dict[str, str]:
    """`version` of hydrascope and `torch`, the version of PyTorch that it needs; empty where a build does not say it."""
    try:
        return json.loads(_library.find("lib/libhydrascope.json", "libhydrascope.json").read_text())
    except Error:
        return {}


def release(version: str | None) -> tuple[int, int] | None:
    """Two numbers, which tell versions with other binaries apart: "2.11.0a0+cu130" -> (2, 11)."""
    match = re.match(r"\s*v?(\d+)\.(\d+)", version or "")
    return (int(match[1]), int(match[2])) if match else None


def mismatch(built: dict[str, str], version: str | None, reason: str = "") -> TorchError:
    """The sentence about a PyTorch that does not do, with the way out."""
    major, minor = release(built["torch"]) or (0, 0)
    packages = [f"torch=={major}.{minor}.*"]
    if major == 2:
        packages.append(f"torchvision==0.{minor + 15}.*")  # the one that is made for it
    way_out = " ".join(f"'{one}'" for one in packages)
    return TorchError(f"hydrascope {built['version']} is built for PyTorch {major}.{minor}, found {version or 'none'}"
                      f"{reason}: pip install {way_out}")


def check() -> None:
    """Raises TorchError where PyTorch is of another version, or missing; a tree of HYDRASCOPE_TREE brings its own."""
    facts, version = built(), found()
    wanted = release(facts.get("torch"))
    if wanted is None:
        return
    if version is None:
        is_here = "torch" in sys.modules or importlib.util.find_spec("torch") is not None
        if not is_here and not os.environ.get("HYDRASCOPE_TREE"):
            raise mismatch(facts, None)
    elif release(version) not in (wanted, None):
        raise mismatch(facts, version)


def check_beside() -> None:
    """For the program, which does not ask Python where PyTorch is, and finds it beside this package alone."""
    check()
    folder = Path(__file__).resolve().parents[1]
    if built() and not os.environ.get("HYDRASCOPE_TREE") and not (folder / "torch" / "lib").is_dir():
        raise TorchError(f"the program finds PyTorch beside this package alone, and there is none in {folder}: install hydrascope "
                         "into the environment that has PyTorch")


def unloadable(error: Exception) -> Error:
    """The sentence for a machine where PyTorch's version is right, and the library still cannot be loaded."""
    facts = built()
    is_torchs = isinstance(error, ImportError) or re.search(r"torch|c10|cuda|nvidia|undefined symbol", str(error))
    if release(facts.get("torch")) is None or not is_torchs:
        return Error(f"the library cannot be loaded: {error}")
    return mismatch(facts, found(), f", with which it cannot be loaded ({error})")
