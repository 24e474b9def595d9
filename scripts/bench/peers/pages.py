"""Pages of tables."""

import math


def number(value: float | None, decimals: int = 9) -> str:
    """Three digits, the zeros at the end too, and at most so many behind the point."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    before = math.floor(math.log10(abs(value)))
    return f"{value:.{max(0, min(decimals, 2 - before))}f}"


def lines_of_table(head: list[str], rows: list[list[str]], left: int = 1) -> list[str]:
    """Columns from the `left`-th on are numbers, those without a title texts."""

    def line(cells: list[str]) -> str:
        texts = [cell.replace("|", "\\|") for cell in cells]
        return "|" + "".join(f" {text} |" if text else " |" for text in texts)

    rule = ["---|" if index < left or not title else "---:|" for index, title in enumerate(head)]
    return [line(head), "|" + "".join(rule), *map(line, rows)]


class Page:
    def __init__(self, heading: list[str]) -> None:
        self.lines = list(heading)

    def section(self, title: str, lines: list[str], level: int = 2) -> None:
        """Nothing where there are no lines."""
        if lines:
            self.lines += ["", f"{'#' * level} {title}", "", *lines]

    def table(
        self, title: str, head: list[str], rows: list[list[str]], left: int = 1, level: int = 2
    ) -> None:
        """Nothing where there are no rows."""
        self.section(title, lines_of_table(head, rows, left) if rows else [], level)

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"
