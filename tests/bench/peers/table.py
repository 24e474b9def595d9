"""Medians, ratios and the Markdown of peers.json. Standard library only; tested by table_test.py.

A result holds `contenders` (a list of name, kind, precision) and `items`; an item holds for every
contender that was tried on it {"rounds": [turn or None, ...], "message": text}. A turn is what one
process measured in one round, `ms_p50` being its median over the iterations. A ratio is taken
within a round and only then summarised, so that what slows a whole round does not enter it.
"""

from typing import Any

OWN = "hydrascope"  # the kind of our own contenders; every other kind is a peer
SHORT_PRECISION = {"float32": "fp32", "bfloat16": "bf16", "int8": "int8"}
# Largest relative error against timm in float32 that rounding explains.
LARGEST_ERROR = {"float32": 1e-3, "bfloat16": 0.1}
WRONG = "&dagger;"

Json = dict[str, Any]
Milliseconds = list[float | None]  # by round


def percentile(values: list[float], percent: float) -> float:
    """Between the two nearest ranks, as numpy does it."""
    ordered = sorted(values)
    position = (len(ordered) - 1) * percent / 100
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def spread(values: list[float]) -> Json | None:
    if not values:
        return None
    return {
        "median": percentile(values, 50),
        "p10": percentile(values, 10),
        "p90": percentile(values, 90),
        "rounds": len(values),
    }


def ratio(slower: Milliseconds, faster: Milliseconds) -> Json | None:
    """Of the rounds that both have: how many times as fast the second is as the first."""
    return spread(
        [a / b for a, b in zip(slower, faster, strict=False) if a is not None and b is not None]
    )


def milliseconds(item: Json, name: str) -> Milliseconds:
    rounds = item["results"].get(name, {}).get("rounds", [])
    return [turn and turn["ms_p50"] for turn in rounds]


def worst_error(rounds: list[Json | None]) -> float | None:
    """Of the outputs that were compared with timm's."""
    errors = [turn["relative_error"] for turn in rounds if turn and "relative_error" in turn]
    return max(errors, default=None)


def is_wrong(error: float | None, precision: str) -> bool:
    return error is not None and error > LARGEST_ERROR[precision]


def same_work(a: Json, b: Json) -> bool:
    """The same picture sizes through the same network, whatever the attention."""
    return all(a[key] == b[key] for key in ("model", "img_size", "batch"))


def fastest_softmax(result: Json, item: Json) -> tuple[Json, str] | None:
    """The peer whose softmax has the smallest median for the item's work, with right outputs."""
    found: list[tuple[float, Json, str]] = []
    for other in result["items"]:
        if other["attention"] != "softmax" or not same_work(other, item):
            continue
        for contender in result["contenders"]:
            own = other["results"].get(contender["name"])
            if contender["kind"] == OWN or own is None or own["summary"] is None:
                continue
            if not own["summary"]["wrong_output"]:
                found.append((own["summary"]["ms"]["median"], other, contender["name"]))
    if not found:
        return None
    _, other, name = min(found, key=lambda entry: entry[0])
    return other, name


def own_of_precision(result: Json, precision: str) -> str | None:
    for contender in result["contenders"]:
        if contender["kind"] == OWN and contender["precision"] == precision:
            return str(contender["name"])
    return None


def summarise(result: Json) -> None:
    """Adds `summary` to every contender of every item, and `against_fastest_softmax` to items."""
    for item in result["items"]:
        for contender in result["contenders"]:
            own = item["results"].get(contender["name"])
            if own is None:
                continue
            own["summary"] = None
            times = [value for value in milliseconds(item, contender["name"]) if value is not None]
            if not times:
                continue
            turns = [turn for turn in own["rounds"] if turn]
            error = worst_error(own["rounds"])
            own["summary"] = {
                "ms": spread(times),
                "images_per_second": 1e3 * item["batch"] / percentile(times, 50),
                "peak_memory_bytes": max(turn["peak_memory_bytes"] for turn in turns),
                "relative_error": error,
                "wrong_output": is_wrong(error, contender["precision"]),
                "hydrascope_times_as_fast": None,
            }
            ours = own_of_precision(result, contender["precision"])
            if contender["kind"] != OWN and ours is not None:
                own["summary"]["hydrascope_times_as_fast"] = ratio(
                    milliseconds(item, contender["name"]), milliseconds(item, ours)
                )
    for item in result["items"]:
        item["against_fastest_softmax"] = None
        best = fastest_softmax(result, item)
        if best is None:
            continue
        other, peer = best
        item["against_fastest_softmax"] = {
            "peer": peer,
            "peer_ms": other["results"][peer]["summary"]["ms"],
            "times_as_fast": {
                contender["name"]: ratio(
                    milliseconds(other, peer), milliseconds(item, contender["name"])
                )
                for contender in result["contenders"]
                if contender["kind"] == OWN
            },
        }


def three_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def cell(values: Json | None, missing: str = "-", mark: str = "") -> str:
    """`median (p10 to p90)`."""
    if values is None:
        return missing
    low, middle, high = (three_digits(values[key]) for key in ("p10", "median", "p90"))
    return f"{middle}{mark} ({low} to {high})"


def label(contender: Json) -> str:
    precision = contender["precision"]
    return f"{contender['title']} {SHORT_PRECISION.get(precision, precision)}"


def lines_of_table(head: list[str], rows: list[list[str]]) -> list[str]:
    def line(cells: list[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    return [line(head), "|---" + "|---:" * (len(head) - 1) + "|", *map(line, rows)]


def time_rows(result: Json) -> list[list[str]]:
    rows = []
    for item in result["items"]:
        row = [item["name"]]
        for contender in result["contenders"]:
            own = item["results"].get(contender["name"])
            if own is None or own["summary"] is None:
                row.append("-" if own is None else "failed")
            else:
                mark = WRONG if own["summary"]["wrong_output"] else ""
                row.append(cell(own["summary"]["ms"], mark=mark))
        rows.append(row)
    return rows


def ratio_rows(result: Json, peers: list[Json]) -> list[list[str]]:
    rows = []
    for item in result["items"]:
        row = [item["name"]]
        for contender in peers:
            own = item["results"].get(contender["name"])
            summary = own and own["summary"]
            row.append(cell(summary and summary["hydrascope_times_as_fast"]))
        if any(text != "-" for text in row[1:]):
            rows.append(row)
    return rows


def softmax_rows(result: Json, own: list[Json]) -> list[list[str]]:
    labels = {contender["name"]: label(contender) for contender in result["contenders"]}
    rows = []
    for item in result["items"]:
        against = item["against_fastest_softmax"]
        if against is None:
            continue
        peer = f"{labels[against['peer']]}, {three_digits(against['peer_ms']['median'])} ms"
        ratios = [cell(against["times_as_fast"][contender["name"]]) for contender in own]
        if any(text != "-" for text in ratios):
            rows.append([item["name"], peer, *ratios])
    return rows


def memory_rows(result: Json) -> list[list[str]]:
    rows = []
    for item in result["items"]:
        row = [item["name"]]
        for contender in result["contenders"]:
            own = item["results"].get(contender["name"])
            summary = own and own["summary"]
            row.append(f"{summary['peak_memory_bytes'] / 1e6:.0f}" if summary else "-")
        rows.append(row)
    return rows


def remarks(result: Json) -> list[str]:
    """What was not measured and why, and outputs that rounding does not explain."""
    places: dict[tuple[str, str], list[str]] = {}
    for item in result["items"]:
        for contender in result["contenders"]:
            own = item["results"].get(contender["name"])
            if own is None:
                continue
            if own["message"]:
                key = (label(contender), own["message"])
                places.setdefault(key, []).append(item["name"])
            if own["summary"] and own["summary"]["wrong_output"]:
                error = own["summary"]["relative_error"]
                said = f"{WRONG} output differs from timm fp32 by {error:.2g} (relative)"
                places.setdefault((label(contender), said), []).append(item["name"])
    everything = len(result["items"])
    return [
        f"- {name}: {said} ({'everywhere' if len(where) == everything else '; '.join(where)})"
        for (name, said), where in places.items()
    ]


def heading(header: Json) -> list[str]:
    versions = ", ".join(f"{name} {version}" for name, version in header["versions"].items())
    return [
        "# hydrascope beside its peers: speed with random weights (accuracy: docs/results.md)",
        "",
        f"- processor: {header['processor']} ({header['instruction_sets']}), "
        f"{header['processors']} processors, {header['memory_gb']:.0f} GB",
        f"- threads {header['threads']}, rounds in turns {header['rounds']}, "
        f"{header['date']}, load at the start {header['load_at_start']:.2f}",
        f"- {versions}",
    ]


def markdown(result: Json) -> str:
    """Of a result that `summarise` has seen."""
    peers = [contender for contender in result["contenders"] if contender["kind"] != OWN]
    own = [contender for contender in result["contenders"] if contender["kind"] == OWN]
    everyone = [label(contender) for contender in result["contenders"]]
    text = heading(result["header"])
    if result["header"].get("interrupted"):
        text += ["- interrupted: not all rounds were measured"]

    def section(title: str, head: list[str], rows: list[list[str]]) -> None:
        if rows:
            text.extend(["", f"## {title}", "", *lines_of_table(head, rows)])

    section(
        "Milliseconds per forward pass: median over rounds (p10 to p90)",
        ["work", *everyone],
        time_rows(result),
    )
    section(
        "How many times as fast as each peer hydrascope is, at the peer's precision",
        ["work", *map(label, peers)],
        ratio_rows(result, peers),
    )
    section(
        "How many times as fast as the fastest softmax of any peer hydrascope is",
        ["work", "fastest softmax", *map(label, own)],
        softmax_rows(result, own),
    )
    section("Peak resident memory, MB", ["work", *everyone], memory_rows(result))
    said = remarks(result)
    if said:
        text += ["", "## Not measured, or in doubt", "", *said]
    return "\n".join(text) + "\n"
