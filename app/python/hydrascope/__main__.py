"""`python -m hydrascope` and the command `hydrascope`: the program takes this process over."""

import os
import sys

from . import _library
from .errors import Error

# Commands that the program answers without PyTorch.
_ABOUT_ITSELF = {"version", "help", "completion", "-h", "--help", "--version"}


def main() -> None:
    words = sys.argv[1:]
    try:
        program = str(_library.program() if words and not _ABOUT_ITSELF & set(words) else _library.find(*_library.PROGRAM))
    except Error as error:
        sys.exit(f"error: {error}")
    os.execv(program, ["hydrascope", *words])


if __name__ == "__main__":
    main()
