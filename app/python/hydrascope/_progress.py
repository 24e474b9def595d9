"""A line about a call that takes long."""

from __future__ import annotations

import sys
import time

_PATIENCE = 2.0
"""Seconds without a word."""


class Progress:
    """Shown on `sys.stderr` where that is a terminal or a notebook's, or where `wanted` says so; gone at the end."""

    def __init__(self, total: int | None, wanted: bool | None) -> None:
        self._total, self._begin, self._width = total, time.monotonic(), 0
        self._is_shown = wanted if wanted is not None else sys.stderr.isatty() or "ipykernel" in sys.modules

    def show(self, done: int, layers: tuple[int, int] = (0, 0)) -> None:
        """`layers`: done, and all of the work at hand, which are said until a picture is done: nothing else moves in one batch."""
        seconds = time.monotonic() - self._begin
        if not self._is_shown or seconds < _PATIENCE:
            return
        left = f", {seconds / done * (self._total - done):.0f} s left" if self._total and done else ""
        pictures = "" if self._total == 1 and layers[1] and not done else f"{done}{f' of {self._total}' if self._total else ''} pictures, "
        place = f"layer {layers[0]} of {layers[1]}, " if layers[1] and not done else ""
        self._say(f"{pictures}{place}{seconds:.0f} s{left}")

    def _say(self, text: str) -> None:
        sys.stderr.write(f"\r{text.ljust(self._width)}")
        sys.stderr.flush()
        self._width = len(text)

    def end(self) -> None:
        if self._width:
            self._say("")
            sys.stderr.write("\r")
