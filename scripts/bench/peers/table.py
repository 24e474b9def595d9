"""The tables of peers.json: medians, ratios, noise, Markdown. Standard library only.

A result holds `contenders` (a list of name, kind, precision) and `items`; an item holds a record
(turns.py) for every contender that was tried on it. A turn's `ms_p50` is the median of its passes.
"""

import statistics

import noise
from pages import Page, lines_of_table, number
from turns import Json, Record, by_round, median, ratio, spread

OWN = "hydrascope"  # the kind of our own contenders; every other kind is a peer
SHORT_PRECISION = {"float32": "fp32", "bfloat16": "bf16", "int8": "int8"}
# Largest relative error against timm in float32 that rounding explains.
LARGEST_ERROR = {"float32": 1e-3, "bfloat16": 0.1, "int8": 0.3}
FLOATS = ("float32", "bfloat16")
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
    """The same picture sizes through the same network, whatever the attention, and in the same run of those that were merged."""
    return all(a.get(key) == b.get(key) for key in ("model", "img_size", "batch", "stage", "run"))


def fastest_softmax(result: Json, item: Json) -> tuple[Json, Json] | None:
    """The item and the peer whose softmax has the smallest median for the item's work, with right
    outputs."""
    found: list[tuple[float, Json, Json]] = []
    for other in result["items"]:
        if other["attention"] == "softmax" and same_work(other, item):
            best = fastest(result, other, own=False)
            if best is not None:
                found.append((summary_of(other, best)["ms"]["median"], other, best))  # type: ignore[index]
    return min(found, key=lambda entry: entry[0])[1:] if found else None


def fastest(
    result: Json, item: Json, own: bool, precisions: tuple[str, ...] = (*FLOATS, "int8")
) -> Json | None:
    """The contender with the smallest median, among ours or the peers', with a right output."""
    found: list[tuple[float, Json]] = []
    for contender in result["contenders"]:
        summary = summary_of(item, contender)
        if (
            summary
            and is_own(contender) == own
            and contender["precision"] in precisions
            and not summary["wrong_output"]
        ):
            found.append((summary["ms"]["median"], contender))
    return min(found, key=lambda entry: entry[0])[1] if found else None


def percent_by_round(record: Record, kind: str) -> float | None:
    """The mean over the rounds; what was not recorded is unknown."""
    key = f"{kind}_percent"
    values = [turn[key] for turn in record["rounds"] if turn and key in turn]
    return statistics.fmean(values) if values else None


def percent_of_rate(record: Record) -> float | None:
    """The median share of the product rate that `hydrascope benchmark` measured; above it the machine did something else
    meanwhile, and the share says nothing. Peers, and turns of earlier versions, have none."""
    shares = [turn["pct_of_peak"] for turn in record["rounds"] if turn and turn.get("pct_of_peak") is not None]
    return median(shares) if shares and median(shares) <= 100 else None


def summary(item: Json, contender: Json, record: Record) -> Json | None:
    times = [ms for ms in by_round(record) if ms is not None]
    if not times:
        return None
    error = worst_error(record["rounds"])
    ms = spread(times)
    assert ms is not None
    percents: Json = {
        "steal_percent": percent_by_round(record, "steal"),
        "others_percent": percent_by_round(record, "others"),
        # One round has none.
        "spread_percent": 100 * (ms["p90"] - ms["p10"]) / ms["median"] if len(times) > 1 else None,
    }
    return {
        "ms": ms,
        "images_per_second": 1e3 * item["batch"] / median(times),
        "peak_memory_bytes": max(turn["peak_memory_bytes"] for turn in record["rounds"] if turn),
        "relative_error": error,
        "wrong_output": is_wrong(error, contender["precision"]),
        "percent_of_rate": percent_of_rate(record),
        **percents,
        "noisy": noise.excess(percents),
    }


def times_as_fast(result: Json, item: Json, peer: Json) -> Json:
    """hydrascope against a peer: at the peer's precision, at the faster of its float32 and bfloat16, in int8."""
    ours = {
        "same": fastest(result, item, True, (peer["precision"],)),
        "float": fastest(result, item, True, FLOATS),
        "int8": fastest(result, item, True, ("int8",)),
    }
    theirs = by_round(record_of(item, peer))
    return {
        key: own and ratio(theirs, by_round(record_of(item, own))) for key, own in ours.items()
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
    """Adds `summary` to every contender of every item; `best_peers` and `against_fastest_softmax` to items."""
    for item in result["items"]:
        for contender in result["contenders"]:
            record = record_of(item, contender)
            if record is not None:
                record["summary"] = summary(item, contender, record)
    for item in result["items"]:
        for peer in result["contenders"]:
            found = summary_of(item, peer)
            if found and not is_own(peer):
                found["hydrascope_times_as_fast"] = times_as_fast(result, item, peer)
        best = {"float": fastest(result, item, False, FLOATS), "int8": fastest(result, item, False, ("int8",))}
        item["best_peers"] = {kind: peer["name"] for kind, peer in best.items() if peer}
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


def percent_cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def row(item: Json, contender: Json) -> list[str]:
    """One contender's figures of one piece of work."""
    found, name = summary_of(item, contender), label(contender)
    if found is None:
        why = "failed" if item["results"][contender["name"]]["message"] else "-"
        return [item["name"], name, why, *["-"] * (len(HEAD) - 3)]
    if found["noisy"]:
        name += f", noisy ({', '.join(found['noisy'])})"
    if contender["name"] in item["best_peers"].values():
        name = f"**{name}**"
    percents = [percent_cell(found[f"{kind}_percent"]) for kind in noise.MOST]
    error, ratios = found["relative_error"], found.get("hydrascope_times_as_fast", {})
    return [
        item["name"],
        name,
        cell(found["ms"], mark=WRONG if found["wrong_output"] else ""),
        *percents,
        f"{found['peak_memory_bytes'] / 1e6:.0f}",
        "-" if error is None else f"{error:.1g}",
        percent_cell(found["percent_of_rate"]),
        *(cell(ratios.get(key)) for key in ("same", "float", "int8")),
    ]


HEAD = [
    "work",
    "contender",
    "ms",
    *(f"{kind} %" for kind in noise.MOST),
    "MB",
    "error",
    "share of this processor's product rate %",
    "hydrascope at the same precision",
    "in fp32 or bf16",
    "in int8",
]


def softmax_rows(result: Json, own: list[Json]) -> list[list[str]]:
    labels = {contender["name"]: label(contender) for contender in result["contenders"]}
    rows = []
    for item in result["items"]:
        against = item["against_fastest_softmax"]
        if against is not None and item["attention"] != "softmax":
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


def about(result: Json) -> list[str]:
    header = result["header"]
    versions = ", ".join(f"{name} {version}" for name, version in header["versions"].items())
    text = [
        f"- processor: {header['processor']} ({header['instruction_sets']}), "
        f"{header['processors']} processors, {header['memory_gb']:.0f} GB",
        f"- threads {header['threads']}, rounds in turns {header['rounds']}, "
        f"{header['date']}, load at the start {header['load_at_start']:.2f}",
    ]
    if versions:
        text.append(f"- {versions}")
    if header.get("interrupted"):
        text.append("- interrupted: not all rounds were measured")
    return text + other_runs(result)


def other_runs(result: Json) -> list[str]:
    """The work of a merged result that another run measured, a line for each run."""
    places: dict[str, list[str]] = {}
    for item in result["items"]:
        if "run" in item:
            run, known = item["run"], result["header"]["versions"]
            new = [f", {name} {version}" for name, version in run["versions"].items() if known.get(name) != version]
            places.setdefault(f"{run['date']}, rounds {run['rounds']}{''.join(new)}", []).append(item["name"])
    return [f"- measured in another run, {run}: {'; '.join(names)}" for run, names in places.items()]


def markdown(results: list[Json], figure: str = "") -> str:
    """The page of results that `summarise` has seen, the newest first; `figure` is a link to the newest one's."""
    results = sorted(results, key=lambda result: result["header"]["date"], reverse=True)
    days = sorted({result["header"]["date"][:10] for result in results})
    page = Page(
        [
            f"# hydrascope beside its peers, {' to '.join(dict.fromkeys((days[0], days[-1])))}: "
            "speed with random weights (accuracy: docs/results.md)",
            "",
            "Milliseconds of a forward pass or a step of training are medians over the rounds (p10 to p90). Spread is p90 - p10 "
            "over the median;",
            "steal and others are the processors' time of a hypervisor's other guests and of other processes. The error is the "
            "logits' against",
            "timm's in float32. The last columns say how many times as fast as the row's peer hydrascope is. The fastest peer in "
            "float32 or bfloat16",
            "and the fastest in int8 are bold. The share is hydrascope's products, attention included, over the most that this "
            "processor was",
            "seen to do in the row's type (`hydrascope benchmark`, `ceiling`). A row is noisy with "
            + " or ".join(f"{kind} above {most:.0f} %" for kind, most in noise.MOST.items())
            + ".",
        ]
    )
    if figure:
        page.lines += ["", f"![milliseconds of every contender, a panel per piece of work]({figure})"]
    for result in results:
        header = result["header"]
        everyone = result["contenders"]
        own = [contender for contender in everyone if is_own(contender)]
        rows = [
            row(item, each)
            for item in result["items"]
            for each in everyone
            if record_of(item, each) is not None
        ]
        page.section(f"{header['processor']}, {header['date'].partition('+')[0]}", about(result))
        page.lines += ["", *lines_of_table(HEAD, rows, 2)] if rows else []
        page.table(
            "Times as fast as the fastest softmax of any peer",
            ["work", "fastest softmax", *map(label, own)],
            softmax_rows(result, own),
            left=2,
            level=3,
        )
        page.section("Not measured, or in doubt", remarks(result), level=3)
    return page.text()
