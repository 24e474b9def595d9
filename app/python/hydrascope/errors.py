"""Errors as exceptions: one class per code that the program's records have, with the program's words."""

from __future__ import annotations

import errno
import os
import sys
import warnings


class Error(Exception):
    """Base of all; `code` is "not_found", "invalid_argument", ..."""

    code = "failed"
    field = ""
    """The argument that it is about, "img_size", where the program says it."""
    subject = ""
    """The value or the file that it is about."""
    hint = ""
    """The way out, where there is one; also the last line of the text."""
    output = ""
    """Set by `run`: the text that the program had written to standard output."""


class _FileError(Error, OSError):
    """`filename` is what the program was given, where it is a file of the user's."""

    _errno: int | None = None

    def __init__(self, text: str, filename: str | None = None) -> None:
        super().__init__(text)
        self.filename = filename
        if self._errno is not None:
            self.errno, self.strerror = self._errno, os.strerror(self._errno)

    # OSError's own leave out the text, and the file.
    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[type[Error], tuple[str, str | None]]:
        return type(self), (str(self), self.filename)


class NotFoundError(_FileError, FileNotFoundError):
    code = "not_found"
    _errno = errno.ENOENT


class UnreadableError(_FileError):
    code = "unreadable"


class UnwritableError(_FileError):
    code = "unwritable"


class DecodeError(Error, ValueError):
    code = "decode_failed"


class UnsupportedFormatError(Error, ValueError):
    code = "unsupported_format"


class TooLargeError(Error, ValueError):
    code = "too_large"


class EmptyError(Error, ValueError):
    code = "empty"


class OutOfMemoryError(Error, MemoryError):
    code = "out_of_memory"


class InternalError(Error):
    code = "internal"


class InvalidArgumentError(Error, ValueError):
    code = "invalid_argument"


class TorchError(Error, ImportError):
    """PyTorch is missing, or not the one that this package is built for."""


class HydrascopeWarning(UserWarning):
    """A note of the command line: the answer is not what the caller may expect."""


def warn(note: str) -> None:
    """As a warning at the line that called the package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == __package__:
        level, frame = level + 1, frame.f_back
    warnings.warn(note, HydrascopeWarning, stacklevel=level)


_OF_CODE: dict[str, type[Error]] = {
    kind.code: kind for kind in (NotFoundError, UnreadableError, UnwritableError, DecodeError, UnsupportedFormatError,
                                 TooLargeError, EmptyError, OutOfMemoryError, InternalError, InvalidArgumentError)}


def make_error(code: str, text: str, subject: str | None = "", field: str = "", hint: str = "") -> Error:
    """The exception of that code; `Error` itself for "failed" and codes that are new."""
    kind = _OF_CODE.get(code, Error)
    whole = text + (f"\nhint: {hint}" if hint else "")
    error = kind(whole, subject or None) if issubclass(kind, _FileError) else kind(whole)
    error.subject, error.hint = subject or "", hint
    error.field = {"class": "classes"}.get(field, field)  # a word of Python
    return error
