"""The figure of a result: milliseconds of every contender, a panel per piece of work. Standard library only."""

import math
from html import escape

import table
from turns import Json

PEER, OWN = "#6b7280", "#c2410c"
SIDE, LINE, LEFT, TOP, GAP, COLUMNS = 230, 17, 130, 44, 34, 3


def figure(result: Json) -> str:
    """`summarise` has seen the result. A dot is the median over the rounds, its line p10 to p90, on a logarithmic axis of its
    panel; rows that are noisy are hollow."""
    items = [item for item in result["items"] if any(map(table.summary_of, [item] * len(result["contenders"]), result["contenders"]))]
    everyone = result["contenders"]
    height = LINE * len(everyone)
    rows = math.ceil(len(items) / COLUMNS)
    width = LEFT + min(len(items), COLUMNS) * (SIDE + GAP)
    whole = TOP + rows * (height + TOP)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {whole}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{whole}" fill="#fff"/>',
    ]

    def text(x: float, y: float, content: str, anchor: str = "middle", color: str = "#111") -> None:
        out.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}">{escape(content)}</text>'
        )

    header = result["header"]
    text(
        8,
        16,
        f"{header['processor']}, {header['threads']} threads, {header['date'][:10]}: milliseconds, median of {header['rounds']} rounds "
        "(p10 to p90), a logarithmic axis for every panel; hollow: noisy",
        "start",
    )
    for index, item in enumerate(items):
        left = LEFT + index % COLUMNS * (SIDE + GAP)
        top = TOP + index // COLUMNS * (height + TOP)
        found = [(each, table.summary_of(item, each)) for each in everyone]
        times = [summary["ms"] for _, summary in found if summary]
        # A third is left for the numbers.
        low = math.log10(min(ms["p10"] for ms in times)) - 0.05
        high = math.log10(max(ms["p90"] for ms in times)) + 0.05
        scale = 0.75 * SIDE / (high - low)
        text(left + SIDE / 2, top - 6, item["name"])
        for place, (contender, summary) in enumerate(found):
            y = top + LINE * (place + 0.5)
            color = OWN if table.is_own(contender) else PEER
            out.append(f'<path d="M{left} {y:.1f}h{SIDE}" stroke="#eee"/>')
            if index % COLUMNS == 0:
                text(left - 8, y + 4, table.label(contender), "end", color)
            if summary is None:
                continue
            begin, middle, end = (
                left + scale * (math.log10(summary["ms"][key]) - low) for key in ("p10", "median", "p90")
            )
            title = f"{table.label(contender)}, {item['name']}: {table.cell(summary['ms'])} ms"
            fill = "#fff" if summary["noisy"] else color
            out.append(
                f'<g stroke="{color}"><title>{escape(title)}</title><path d="M{begin:.1f} {y:.1f}H{end:.1f}" stroke-width="2"/>'
                f'<circle cx="{middle:.1f}" cy="{y:.1f}" r="4" fill="{fill}"/></g>'
            )
            text(max(middle, end) + 8, y + 4, table.three_digits(summary["ms"]["median"]), "start", color)
    return "\n".join([*out, "</svg>"]) + "\n"
