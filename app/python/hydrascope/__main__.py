"""`python -m hydrascope` and the command `hydrascope`: the program takes this process over."""

import os
import sys

from . import _library


def main() -> None:
    program = str(_library.program())
    os.execv(program, ["hydrascope", *sys.argv[1:]])


if __name__ == "__main__":
    main()
