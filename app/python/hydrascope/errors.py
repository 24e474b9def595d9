"""What goes wrong, as exceptions: one class per code that the program's records have, with the program's words."""

from __future__ import annotations


class Error(Exception):
    """Base of all; `code` is "not_found", "invalid_argument", ..."""

    code = "failed"


class NotFoundError(Error, FileNotFoundError):
    code = "not_found"


class UnreadableError(Error, OSError):
    code = "unreadable"


class UnwritableError(Error, OSError):
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


_OF_CODE: dict[str, type[Error]] = {
    kind.code: kind for kind in (NotFoundError, UnreadableError, UnwritableError, DecodeError, UnsupportedFormatError,
                                 TooLargeError, EmptyError, OutOfMemoryError, InternalError, InvalidArgumentError)}


def make_error(code: str, text: str) -> Error:
    """The exception of that code; `Error` itself for "failed" and codes that are new."""
    return _OF_CODE.get(code, Error)(text)
