"""Lays out what mkdocs makes the site of.

    python docs/site/stage.py PROGRAM FOLDER [--notebooks FOLDER]

FOLDER/pages gets README.md, docs/ and every file that they link to, each where it lies in the repository, so that links
hold; the pages that the program's own tables give (commands, mechanisms, position rules, map methods); and the tutorials
that nbconvert wrote as Markdown. FOLDER/mkdocs.yml is docs/site/mkdocs.yml with the navigation. Standard library only.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(\]\()([^)\s#]+)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
Nav = list[dict[str, object]]


def title_of(text: str) -> str:
    return re.search(r"^# (.+)$", text, re.MULTILINE)[1]


def links_of(text: str) -> list[str]:
    found = [target for _, target in LINK.findall(FENCE.sub("", text))]
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def copy_with_links(pages: Path) -> None:
    """README.md, docs/*.md and what they lead to. A folder is its README.md, or a list of its files."""
    waiting = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
    done: set[Path] = set()
    while waiting:
        file = waiting.pop()
        if file in done:
            continue
        done.add(file)
        target = pages / file.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix != ".md":
            shutil.copy(file, target)
            continue
        text = file.read_text()
        for link in links_of(text):
            linked = Path(os.path.normpath(file.parent / link))
            if linked.is_dir():
                text = text.replace(f"]({link})", f"]({link.rstrip('/')}/README.md)")
                inside = sorted(other for other in linked.iterdir() if other.is_file())
                if not (linked / "README.md").exists():
                    listing = pages / linked.relative_to(ROOT) / "README.md"
                    listing.parent.mkdir(parents=True, exist_ok=True)
                    names = "".join(f"- [{other.name}]({other.name})\n" for other in inside if other.stat().st_size < 2**20)
                    listing.write_text(f"# {linked.relative_to(ROOT)}\n\n{names}")
                    waiting += [other for other in inside if other.stat().st_size < 2**20]
                else:
                    waiting.append(linked / "README.md")
            elif linked.exists():
                waiting.append(linked)
        target.write_text(text)


class Reference:
    """Pages out of what the program says."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.program, self.folder = program, folder
        folder.mkdir(parents=True, exist_ok=True)

    def say(self, *words: str) -> str:
        environment = {**os.environ, "COLUMNS": "120"}
        return subprocess.run([self.program, *words], capture_output=True, text=True, check=True, env=environment).stdout

    def page(self, name: str, text: str) -> str:
        (self.folder / f"{name}.md").write_text(text)
        return f"reference/{name}.md"

    def command(self, name: str) -> str:
        """Its help as headings, definitions and examples."""
        head, *blocks = self.say("help", name).split("\n\n")
        summary, *others = blocks
        lines = [f"# hydrascope {name}\n", "```text", head, "```\n", summary.replace("\nAlso: ", "\n\nAlso: "), ""]
        for block in others:
            heading, *rest = block.splitlines()
            lines.append(f"## {heading.rstrip(':')}\n")
            if heading.startswith("Examples"):
                lines += ["```bash", *(line.strip() for line in rest), "```\n"]
                continue
            entries: list[tuple[str, list[str]]] = []
            for line in rest:
                label, text = (line.strip(), "") if len(line) <= 30 or line[:30].strip() and line[28:30].strip() \
                    else (line[:30].strip(), line[30:].strip())
                if label:
                    entries.append((label, [text]))
                else:
                    entries[-1][1].append(text)
            for label, texts in entries:
                lines += [f"`{label}`", f"<br>{escaped(' '.join(texts).strip())}\n"]
        return self.page(f"command_{name}", "\n".join(lines))

    def commands(self) -> Nav:
        names = re.findall(r"^  ([a-z]+)(?: \(|  )", self.say("help").partition("Example:")[0], re.MULTILINE)
        return [{name: self.command(name)} for name in names]

    def described(self, kind: str, title: str, names: list[str]) -> str:
        """`models info NAME` of every one."""
        lines = [f"# {title}\n"]
        for name in names:
            info = json.loads(self.say("models", "info", name, "--format", "json"))
            lines += [f"## {name}\n", escaped(info.get("summary", "")), ""]
            also = ", ".join(f"`{alias}`" for alias in info.get("aliases", []))
            if also:
                lines += [f"Also: {also}.", ""]
            if info.get("citation"):
                lines += [f"Source: {escaped(info['citation'])}.", ""]
            options = info.get("options", [])
            if options:
                lines += ["| option | default | values | |", "|---|---|---|---|"]
            for option in options:
                values = ", ".join(map(str, option.get("choices", []))) or \
                    " to ".join(f"{option[key]:g}" for key in ("minimum", "maximum") if key in option)
                cells = (f"`{option['key']}`", str(option.get("default", "")), values, option.get("help", ""))
                lines.append("| " + " | ".join(escaped(cell).replace("|", "\\|") for cell in cells) + " |")
            lines.append("")
        return self.page(kind, "\n".join(lines))

    def map_methods(self) -> str:
        """The rows of model/registry/map_methods.cpp; the program has no list of them."""
        text = (ROOT / "model/registry/map_methods.cpp").read_text()
        rows = re.findall(r'\{Method::\w+,\s*"([\w-]+)",\s*((?:"[^"]*"\s*)+),\s*(true|false)', text)
        lines = ["# Map methods\n", "`--method` of `visualize` and `faithfulness` takes one or several of these methods ([maps](../docs/maps.md)).\n",
                 "| method | shows | depends on the class |", "|---|---|---|"]
        for name, summary, by_class in rows:
            words = "".join(re.findall(r'"([^"]*)"', summary))
            lines.append(f"| `{name}` | {escaped(words)} | {'yes' if by_class == 'true' else 'no'} |")
        return self.page("map_methods", "\n".join(lines) + "\n")


def escaped(text: str) -> str:
    """Without characters that Markdown or HTML would take for its own, save for `code`."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([\\`*_\[\]])", r"\\\1", part.replace("&", "&amp;").replace("<", "&lt;"))
                   for part in parts)


def guides() -> Nav:
    """The pages of docs/ in the order of their index."""
    index = (ROOT / "docs/README.md").read_text()
    names = dict.fromkeys(name for name in re.findall(r"\]\(([\w]+\.md)\)", index))
    return [{title_of((ROOT / "docs" / name).read_text()): f"docs/{name}"} for name in names]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--notebooks", type=Path, help="folder with the tutorials as Markdown")
    arguments = parser.parse_args()
    pages = arguments.folder / "pages"
    copy_with_links(pages)
    reference = Reference(arguments.program.resolve(), pages / "reference")
    known = json.loads(reference.say("models", "list", "--format", "json"))
    nav: Nav = [{"hydrascope": "README.md"}]
    if arguments.notebooks:
        shutil.copytree(arguments.notebooks, pages / "docs/tutorials", dirs_exist_ok=True)
        tutorials = sorted(arguments.notebooks.glob("*.md"))
        for page in (pages / "docs/tutorials").glob("*.md"):  # they link to each other's notebooks
            page.write_text(re.sub(r"(\]\(\w+)\.ipynb\)", r"\1.md)", page.read_text()))
        nav.append({"Tutorials": [{title_of(page.read_text()): f"docs/tutorials/{page.name}"} for page in tutorials]})
    nav += [{"Pages": [{"All pages": "docs/README.md"}, *guides()]},
            {"Commands": reference.commands()},
            {"Lists": [
                {"Attention mechanisms": reference.described("mechanisms", "Attention mechanisms", known["mechanisms"])},
                {"Position rules": reference.described(
                    "position_rules", "Position rules", [rule for rule in known["position_rules"] if rule != "none"])},
                {"Memories": reference.described("memories", "Memories over frames", known["memories"])},
                {"Map methods": reference.map_methods()}]},
            {"Changes": "CHANGELOG.md"}]
    for name in ("hooks.py", "mkdocs.yml"):
        shutil.copy(ROOT / "docs/site" / name, arguments.folder)
    shutil.copy(ROOT / "docs/site/site.css", pages)
    with (arguments.folder / "mkdocs.yml").open("a") as file:
        file.write(f"nav: {json.dumps(nav)}\n")


if __name__ == "__main__":
    main()
