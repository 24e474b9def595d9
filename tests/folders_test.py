"""The folders of app/ include each other in one direction, and an option's name stands in its row alone. No room is larger
than CONTRIBUTING.md allows. An alias of a
namespace means one thing in a room: builds that compile several files at once (unity), those with CUDA too, would not
compile.

    folders_test.py [ROOT]
"""

import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
GENERATED = {"build_info.h"}


def includes():
    """Folder -> folder -> an include of the one in the other."""
    found = collections.defaultdict(dict)
    for file in sorted((ROOT / "app").rglob("*")):
        if file.suffix not in (".cpp", ".h"):
            continue
        folder = file.parent.relative_to(ROOT / "app").as_posix()
        for name in re.findall(r'#include "app/([^"]+)"', file.read_text(encoding="utf-8")):
            other = pathlib.PurePosixPath(name).parent.as_posix()
            if other != folder and name not in GENERATED:
                found[folder][other] = f"{file.relative_to(ROOT)} includes app/{name}"
    return found


def circle(found):
    """The includes of a circle of folders, or nothing."""
    done = set()

    def walk(folder, path):
        if folder in path:
            return [found[a][b] for a, b in zip(path[path.index(folder):], path[path.index(folder) + 1:] + [folder])]
        if folder in done:
            return []
        for other in found.get(folder, ()):
            if way := walk(other, [*path, folder]):
                return way
        done.add(folder)
        return []

    return next((way for folder in list(found) if (way := walk(folder, []))), [])


def repeated_names():
    """A line for each option's name in quotes outside the rows of tables: code names an option by the field that it fills.
    Only names with a dash are looked for, and calls of `named`: other names are words of records and of HTTP, too."""
    texts = {file: file.read_text(encoding="utf-8") for file in sorted((ROOT / "app").rglob("*")) if file.suffix in (".cpp", ".h")}
    row = re.compile(r'\b(?:text|flag|number|integer|share|pair_of_numbers)\(\s*"([a-z0-9.-]+)",')
    names = {name for text in texts.values() for name in row.findall(text)}
    assert len(names) > 100, "the rows are written otherwise"
    found = []
    for file, text in texts.items():
        rows = {match.start(1) for match in row.finditer(text)}
        code = re.sub(r"//.*", lambda comment: " " * len(comment[0]), text)
        for match in re.finditer(r'(\bnamed\()?"([a-z0-9-]+)"', code):
            if match[2] in names and match.start(2) not in rows and ("-" in match[2] or match[1]):
                found.append(f"{file.relative_to(ROOT)}:{code.count(chr(10), 0, match.start()) + 1} names the option {match[2]}")
    return found


def ambiguous_aliases():
    """A line for each alias at the level of a file that means two namespaces in one room."""
    meanings = collections.defaultdict(dict)
    for room in ("app", "model", "viz"):
        for file in sorted((ROOT / room).rglob("*")):
            if file.suffix not in (".cpp", ".h"):
                continue
            for name, of in re.findall(r"^namespace (\w+) = (?:hydrascope::)?([\w:]+);", file.read_text(encoding="utf-8"), re.M):
                meanings[room, name].setdefault(of, file.relative_to(ROOT))
    return [f"namespace {name} means " + " and ".join(f"{of} ({file})" for of, file in found.items())
            for (_, name), found in meanings.items() if len(found) > 1]


def sizes():
    """Lines of C++ and CUDA by room, of all of scripts/, and words of README and docs/, of files that git has or would take."""
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard", "-z"], capture_output=True).stdout.decode()
    found = collections.Counter()
    for name in filter(None, listed.split("\0")):
        file, room = ROOT / name, name.split("/")[0]
        if not file.is_file():
            continue
        if room == "scripts" or room in ("app", "model", "kernels", "viz", "tests") and file.suffix in (".h", ".cpp", ".cu", ".cuh"):
            found[room] += file.read_bytes().count(b"\n")
        elif name == "README.md" or room == "docs" and file.suffix == ".md":
            found["words"] += len(file.read_text(encoding="utf-8").split())
    return found


def over_budget():
    """A line for each row of CONTRIBUTING.md that is exceeded. Without git's list of files nothing is counted."""
    budget = dict(re.findall(r"^\| (\w+) \| (\d+) \|$", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.M))
    found = sizes()
    assert not found or found.keys() <= budget.keys(), "a row is missing"
    return [f"{room} has {found[room]}, CONTRIBUTING.md allows {most}" for room, most in budget.items() if found[room] > int(most)]


if __name__ == "__main__":
    way = circle(includes())
    print("\n".join(["folders of app/ include each other in a circle:", *way]) if way else "no circle")
    aliases = ambiguous_aliases()
    print("\n".join(aliases) or "no ambiguous alias")
    names = repeated_names()
    print("\n".join(names) or "no repeated name of an option")
    exceeded = over_budget()
    print("\n".join(exceeded) or "no budget exceeded")
    sys.exit(1 if way or aliases or names or exceeded else 0)
