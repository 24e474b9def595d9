"""What GitHub's Markdown has and mkdocs' lacks: lists right below a paragraph, and anchors named as GitHub names them."""

import re
import unicodedata


def github_anchor(title: str, separator: str) -> str:
    kept = re.sub(r"[^\w\- ]", "", unicodedata.normalize("NFC", title).strip().lower())
    return kept.replace(" ", separator)


def on_config(config):
    config["mdx_configs"].setdefault("toc", {})["slugify"] = github_anchor
    return config


def on_page_markdown(markdown: str, **_) -> str:
    lines, is_code = [], False
    for line in markdown.splitlines():
        is_code ^= line.lstrip().startswith("```")
        is_item = re.match(r"([-*]|\d+\.) ", line) is not None
        if is_item and not is_code and lines and lines[-1].strip():
            if not re.match(r"([-*]|\d+\.) |  ", lines[-1]):
                lines.append("")
        lines.append(line)
    return "\n".join(lines) + "\n"
