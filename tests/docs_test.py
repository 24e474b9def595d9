"""What README.md and the pages of docs/ say against what is there: links, paths, options, lengths.

    python tests/docs_test.py [PROGRAM]

Without PROGRAM the options are not checked. Standard library only.
"""

import json
import re
import subprocess
import sys
import unittest
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
NOTES = sorted((DOCS / "notes").glob("*.md"))  # dated, and true on their day: only their links have to hold
PAGES = [README, ROOT / "CHANGELOG.md", ROOT / "kernels" / "README.md", *sorted(DOCS.glob("*.md")), DOCS / "tutorials" / "README.md",
         *sorted((ROOT / "assets" / "models").glob("*.md")),
         *sorted((ROOT / "tests").rglob("README.md"))]
ROOMS = ("app", "assets", "cmake", "docs", "kernels", "model", "scripts", "tests", "viz")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"(?<![\w-])--[a-z0-9][a-z0-9-]*")
PROGRAM = None  # from the command line


@cache
def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return FENCE.sub("", page.read_text())


@cache
def anchors(page: Path) -> set[str]:
    """As GitHub derives them from headings."""
    found = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in found}


@cache
def options_of(command: str) -> set[str] | None:
    """All options of a command or alias, None where there is no such command."""
    done = subprocess.run([PROGRAM, command, "--help"], capture_output=True, text=True, check=False)
    return {*OPTION.findall(done.stdout), "--help"} if done.returncode == 0 else None


class Docs(unittest.TestCase):
    def test_links_lead_somewhere(self) -> None:
        for page in PAGES + NOTES:
            for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
                if re.match(r"[a-z]+:", target):
                    continue
                path, _, anchor = target.partition("#")
                file = page.parent / path if path else page
                self.assertTrue(file.exists(), f"{page.relative_to(ROOT)}: {target}")
                if anchor:
                    self.assertIn(anchor, anchors(file), f"{page.relative_to(ROOT)}: {target}")

    def test_named_paths_exist(self) -> None:
        """Words that begin with a room of the repository; NAME stands for anything, an extension may be missing."""
        pattern = re.compile(rf"(?<![\w/.-])(?:{'|'.join(ROOMS)})/[\w./*{{}},-]*[\w*/}}]")
        for page in PAGES:
            for path in pattern.findall(page.read_text()):
                choices = re.search(r"\{([^}]*)\}", path)
                for choice in choices[1].split(",") if choices else [""]:
                    name = path.replace(choices[0], choice) if choices else path
                    name = re.sub(r"NAME|FOLDER|ATTENTION|\bX\b", "*", name.rstrip("/*"))
                    self.assertTrue(any(ROOT.glob(name + "*")), f"{page.relative_to(ROOT)}: {name}")

    def test_every_page_is_in_the_index(self) -> None:
        index = (DOCS / "README.md").read_text()
        for page in DOCS.glob("*.md"):
            if page.name != "README.md":
                self.assertIn(f"]({page.name})", index)

    def test_notes_are_dated_and_in_their_index(self) -> None:
        index = (DOCS / "notes" / "README.md").read_text()
        for note in NOTES:
            if note.name != "README.md":
                self.assertRegex(note.read_text().partition("\n")[0], r"^# .*\d{4}-\d{2}-\d{2}", note.name)
                self.assertIn(f"]({note.name})", index)

    def test_notebooks_have_no_outputs_and_sound_links(self) -> None:
        notebooks = sorted((DOCS / "tutorials").glob("*.ipynb"))
        self.assertEqual(len(notebooks), 3)
        for notebook in notebooks:
            cells = json.loads(notebook.read_text())["cells"]
            for cell in cells:
                self.assertFalse(cell.get("outputs") or cell.get("execution_count"), notebook.name)
            text = "".join(line for cell in cells if cell["cell_type"] == "markdown" for line in cell["source"])
            for target in re.findall(r"\]\(([^)\s#]+)", text):
                self.assertTrue((notebook.parent / target).exists(), f"{notebook.name}: {target}")

    def test_the_readme_is_short(self) -> None:
        lines = README.read_text().splitlines()
        self.assertLessEqual(len(lines), 150)
        for line in lines:
            self.assertTrue(len(line) <= 110 or line.startswith("|"), line)

    def test_the_results_are_conclusions(self) -> None:
        self.assertLessEqual(len((DOCS / "results.md").read_text().split()), 2000)

    def test_nothing_is_left_to_fill_in(self) -> None:
        for page in PAGES:
            self.assertEqual(re.findall(r"<[A-Z][A-Z_]{3,}>|TODO", page.read_text()), [], page.relative_to(ROOT))

    def test_sentences_begin_with_their_subject(self) -> None:
        """The pages, and the comments and docstrings of all rooms."""
        sentence = re.compile(r"(?:^|[.;:|] |\*\* |^- )((?:Of|What|Where) [a-z][^.?\n]*)(?!.*\?)", re.MULTILINE)
        for page in PAGES:
            self.assertEqual(sentence.findall(prose(page)), [], page)
        comment = re.compile(r"(?:(?://+<?|#) ?|(?://|#).*[.] |\"\"\")((?:Of|What|Where) [a-z].*)")
        files = [file for room in ("app", "kernels", "model", "scripts", "tests", "viz") for file in (ROOT / room).rglob("*")
                 if file.suffix in {".cpp", ".h", ".cu", ".cuh", ".py", ".sh", ".js", ".case", ".txt"}]
        self.assertGreater(len(files), 1000)
        for file in files:
            self.assertEqual(comment.findall(file.read_text()), [], file)

    def test_every_speed_of_a_bundled_model_has_its_accuracy(self) -> None:
        for page in (README, DOCS / "results.md"):
            for table in re.findall(r"(?:^\|.*\n)+", prose(page), re.MULTILINE):
                rows = table.splitlines()
                if "images/s" in rows[0] or "timm bf16" in rows[0] and "Hydra" in table:
                    self.assertIn("top-1", rows[0], page.relative_to(ROOT))

    def test_options_exist(self) -> None:
        """Those of every command line of a page, and those that its text names."""
        if PROGRAM is None:
            self.skipTest("no program was given")
        rows = re.findall(r"^\| `.*$", README.read_text(), re.MULTILINE)
        table = [word for row in rows for word in re.findall(r"`([a-z]+)", re.split(r"(?<!\\)\|", row)[1])]
        self.assertIn("classify", table)
        every = set().union(*(options_of(command) or set() for command in table))
        for page in PAGES:
            where, text = page.relative_to(ROOT), page.read_text()
            if where.parts[0] == "tests":
                continue  # they say what made their files, some of them with earlier versions
            for line in re.findall(r"hydrascope ([a-z]+ [^\n`]*)", text):
                known = options_of(line.split()[0])
                for option in OPTION.findall(line.split(" # ")[0]) if known else []:
                    self.assertTrue(option in known, f"{where}: {option} in hydrascope {line}")
            if page != README and (page.parent != DOCS or page.name == "gpu.md"):
                continue  # they name options of other programs
            for span in re.findall(r"`([^`]+)`", prose(page)):
                if not re.search(r"scripts/|tests/|torchrun|ctest|cmake|\.sh|\.py", span):
                    for option in OPTION.findall(span):
                        self.assertTrue(option in every, f"{where}: no command has {option}")


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else None
    unittest.main()
