"""Whether everything that a built site refers to is in it.

    python docs/site/check.py FOLDER

Every link, picture, script and style of every page: that the file is there, and the anchor in it; and that nothing but a
link that a reader follows leads elsewhere. Prints what is wrong and ends with 1. Standard library only.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page refers to, as (tag, address), and the anchors that it has."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.references: list[tuple[str, str]] = []
        self.anchors: set[str] = set()
        self.feed(file.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.anchors.update(values[key] for key in ("id", "name") if values.get(key))
        if tag == "link" and values.get("rel") == "canonical":
            return
        for key in ("href", "src", "poster", "data"):
            if values.get(key) and tag != "base":
                self.references.append((tag, values[key]))


def main(folder: Path) -> int:
    pages = {file.resolve(): Page(file) for file in folder.rglob("*.html") if file.name != "404.html"}
    wrong, checked = [], 0
    for file, page in pages.items():
        for tag, address in page.references:
            checked += 1
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                if tag != "a" and parts.scheme != "data":
                    wrong.append(f"{file.relative_to(folder)}: {tag} asks another machine for {address}")
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                wrong.append(f"{file.relative_to(folder)}: {address} is not there")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                wrong.append(f"{file.relative_to(folder)}: {address} has no such anchor")
    for line in wrong:
        print(line)
    print(f"{len(pages)} pages, {checked} references, {len(wrong)} of them broken")
    return 1 if wrong or not pages else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
