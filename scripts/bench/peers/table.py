"""The tables of peers.json: medians, ratios, Markdown. Standard library only.

A result holds `contenders` (a list of name, kind, precision) and `items`; an item holds a record
(turns.py) for every contender that was tried on it. A turn's `ms_p50` is the median of its passes.
"""

from pages import Page, number
from turns import ByRound, Json, Record, by_round, median, ratio, spread

OWN = "hydrascope"  # the kind of our own contenders; every other kind is a peer
SHORT_PRECISION = {"float32": "fp32", "bfloat16": "bf16", "int8": "int8"}
# Largest relative error against timm in float32 that rounding explains.
LARGEST_ERROR = {"float32": 1e-3, "bfloat16": 0.1}
WRONG = "&dagger;"


def is_own(contender: Json) -> bool:
    return bool(contender["kind"] == OWN)


def record_of(item: Json, contender: Json) -> Record | None:
    record: Record | None = item["results"].get(contender["name"])
    return record


def summary_of(item: Json, contender: Json) -> Json | None:
    return (record_of(item, contender) or {}).get("summary")


def worst_error(rounds: list[Json | None]) -> float | None:
    """The largest error of the outputs that were compared with timm's."""
    errors = [turn["relative_error"] for turn in rounds if turn and "relative_error" in turn]
    return max(errors, default=None)


def is_wrong(error: float | None, precision: str) -> bool:
    return error is not None and error > LARGEST_ERROR[precision]


def same_work(a: Json, b: Json) -> bool:
    """The same picture sizes through the same network, whatever the attention."""
    return all(a.get(key) == b.get(key) for key in ("model", "img_size", "batch", "stage"))


def fastest_softmax(result: Json, item: Json) -> tuple[Json, Json] | None:
    """The item and the peer whose softmax has the smallest median for the item's work, with right
    outputs."""
    found: list[tuple[float, Json, Json]] = []
    for other in result["items"]:
        if other["attention"] != "softmax" or not same_work(other, item):
            continue
        for contender in result["contenders"]:
            summary = summary_of(other, contender)
            if summary and not is_own(contender) and not summary["wrong_output"]:
                found.append((summary["ms"]["median"], other, contender))
    return min(found, key=lambda entry: entry[0])[1:] if found else None


def summary(result: Json, item: Json, contender: Json, record: Record) -> Json | None:
    times = [ms for ms in by_round(record) if ms is not None]
    if not times:
        return None
    error, precision = worst_error(record["rounds"]), contender["precision"]
    ours: ByRound = []
    if not is_own(contender):
        for own in result["contenders"]:
            if is_own(own) and own["precision"] == precision:
                ours = by_round(record_of(item, own))
    return {
        "ms": spread(times),
        "images_per_second": 1e3 * item["batch"] / median(times),
        "peak_memory_bytes": max(turn["peak_memory_bytes"] for turn in record["rounds"] if turn),
        "relative_error": error,
        "wrong_output": is_wrong(error, precision),
        "hydrascope_times_as_fast": ratio(by_round(record), ours),
    }


def against_fastest_softmax(result: Json, item: Json) -> Json | None:
    best = fastest_softmax(result, item)
    if best is None:
        return None
    other, peer = best
    softmax = by_round(record_of(other, peer))
    return {
        "peer": peer["name"],
        "peer_ms": other["results"][peer["name"]]["summary"]["ms"],
        "times_as_fast": {
            own["name"]: ratio(softmax, by_round(record_of(item, own)))
            for own in filter(is_own, result["contenders"])
        },
    }


def summarise(result: Json) -> None:
    """Adds `summary` to every contender of every item, and `against_fastest_softmax` to items."""
    for item in result["items"]:
        for contender in result["contenders"]:
            record = record_of(item, contender)
            if record is not None:
                record["summary"] = summary(result, item, contender, record)
    for item in result["items"]:
        item["against_fastest_softmax"] = against_fastest_softmax(result, item)


def three_digits(value: float) -> str:
    return number(value, decimals=2)


def cell(values: Json | None, mark: str = "") -> str:
    """`median (p10 to p90)`."""
    if values is None:
        return "-"
    low, middle, high = (three_digits(values[key]) for key in ("p10", "median", "p90"))
    return f"{middle}{mark} ({low} to {high})"


def label(contender: Json) -> str:
    precision = contender["precision"]
    return f"{contender['title']} {SHORT_PRECISION.get(precision, precision)}"


def time_cell(item: Json, contender: Json) -> str:
    record, found = record_of(item, contender), summary_of(item, contender)
    if found is None:
        return "-" if record is None else "failed"
    return cell(found["ms"], mark=WRONG if found["wrong_output"] else "")


def ratio_cell(item: Json, contender: Json) -> str:
    found = summary_of(item, contender)
    return cell(found and found["hydrascope_times_as_fast"])


def memory_cell(item: Json, contender: Json) -> str:
    found = summary_of(item, contender)
    return f"{found['peak_memory_bytes'] / 1e6:.0f}" if found else "-"


def softmax_rows(result: Json, own: list[Json]) -> list[list[str]]:
    labels = {contender["name"]: label(contender) for contender in result["contenders"]}
    rows = []
    for item in result["items"]:
        against = item["against_fastest_softmax"]
        if against is not None:
            peer = f"{labels[against['peer']]}, {three_digits(against['peer_ms']['median'])} ms"
            ratios = [cell(against["times_as_fast"][contender["name"]]) for contender in own]
            rows.append([item["name"], peer, *ratios])
    return [row for row in rows if any(text != "-" for text in row[2:])]


def remarks(result: Json) -> list[str]:
    """The measurements that are missing and why, and outputs that rounding does not explain."""
    places: dict[tuple[str, str], list[str]] = {}
    for item in result["items"]:
        for contender in result["contenders"]:
            record, found = record_of(item, contender), summary_of(item, contender)
            said = [record["message"]] if record and record["message"] else []
            if found and found["wrong_output"]:
                error = f"{found['relative_error']:.2g} (relative)"
                said.append(f"{WRONG} output differs from timm fp32 by {error}")
            for text in said:
                places.setdefault((label(contender), text), []).append(item["name"])
    everything = len(result["items"])
    return [
        f"- {name}: {said} ({'everywhere' if len(where) == everything else '; '.join(where)})"
        for (name, said), where in places.items()
    ]


def heading(header: Json) -> list[str]:
    versions = ", ".join(f"{name} {version}" for name, version in header["versions"].items())
    text = [
        f"# hydrascope beside its peers, {header['date'][:10]}: speed with random weights (accuracy: docs/results.md)",
        "",
        f"- processor: {header['processor']} ({header['instruction_sets']}), "
        f"{header['processors']} processors, {header['memory_gb']:.0f} GB",
        f"- threads {header['threads']}, rounds in turns {header['rounds']}, "
        f"{header['date']}, load at the start {header['load_at_start']:.2f}",
        f"- {versions}",
    ]
    if header.get("interrupted"):
        text.append("- interrupted: not all rounds were measured")
    return text


def markdown(result: Json) -> str:
    """The page of a result that `summarise` has seen."""
    everyone = result["contenders"]
    own = [contender for contender in everyone if is_own(contender)]
    peers = [contender for contender in everyone if not is_own(contender)]
    page = Page(heading(result["header"]))
    page.table(
        "Milliseconds per forward pass: median over rounds (p10 to p90)",
        ["work", *map(label, everyone)],
        [[item["name"], *(time_cell(item, each) for each in everyone)] for item in result["items"]],
    )
    ratios = [
        [item["name"], *(ratio_cell(item, each) for each in peers)] for item in result["items"]
    ]
    page.table(
        "How many times as fast as each peer hydrascope is, at the peer's precision",
        ["work", *map(label, peers)],
        [row for row in ratios if any(text != "-" for text in row[1:])],
    )
    page.table(
        "How many times as fast as the fastest softmax of any peer hydrascope is",
        ["work", "fastest softmax", *map(label, own)],
        softmax_rows(result, own),
    )
    page.table(
        "Peak resident memory, MB",
        ["work", *map(label, everyone)],
        [
            [item["name"], *(memory_cell(item, each) for each in everyone)]
            for item in result["items"]
        ],
    )
    page.section("Not measured, or in doubt", remarks(result))
    return page.text()
