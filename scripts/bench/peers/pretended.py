"""The common parts of tests: a folder, and programs that only pretend."""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path


class Folder(unittest.TestCase):
    def setUp(self) -> None:
        # A process that was told to end may still write while the folder goes.
        kept = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(kept.cleanup)
        self.folder = Path(kept.name)

    def put(self, name: str, text: str) -> Path:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file


class Pretended(Folder):
    """Nothing is said."""

    def setUp(self) -> None:
        super().setUp()
        self.enterContext(contextlib.redirect_stderr(io.StringIO()))

    def program(self, name: str, text: str) -> Path:
        head = f"#!{sys.executable}\nimport json, os, struct, sys, time\n"
        file = self.put(name, head + text)
        file.chmod(0o755)
        return file
