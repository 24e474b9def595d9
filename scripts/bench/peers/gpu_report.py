"""Puts what one command of scripts/gpu_kit.sh left in FOLDER into FOLDER/report.md.

    gpu_report.py FOLDER

The kit leaves steps.tsv (name, exit code or why there is none, seconds) and a NAME.log for each step;
gpu_measure.py leaves model.json. A file that is missing or cut off is a result, never an error. Exit
codes: 0 every step passed or could not run here; 1 one failed, was stopped or had no time.
"""

import json
import re
import sys
from pathlib import Path

import gpu_targets as targets
from pages import Page, lines_of_table, number
from processes import Json, json_lines, last_line

# A tool of NVIDIA's says that it cannot watch programs on this machine at all.
UNUSABLE = re.compile(
    r"^==.*(Device not supported|not supported on this|Unable to|failed to initialize|"
    r"No attachable process|Internal Sanitizer Error|LibraryNotLoaded)|is not installed$",
    re.IGNORECASE,
)
# Lines that say what went wrong.
TROUBLE = re.compile(
    r"^\[  FAILED  \] .* \(\d+ ms\)|: Failure$|^(FAIL|ERROR): |error: |CMake Error|terminated by|"
    r"^=+ (Error|Invalid|Race reported|ERROR: |Barrier error|Program hit)"
)
MOST_TROUBLES = 40
MOST_OF_FILE = 2 << 20


def text_of(file: Path) -> str:
    """Its beginning and its end where it is long."""
    try:
        data = file.read_bytes()
    except OSError:
        return ""
    if len(data) > 2 * MOST_OF_FILE:
        data = data[:MOST_OF_FILE] + b"\n" + data[-MOST_OF_FILE:]
    return data.decode("utf-8", "replace")


def counted(log: str) -> dict[str, int]:
    """Counts gtest's programs, in however many processes, and Python's."""
    found = {
        word: len(re.findall(rf"^\[ +{mark} +\] \S+.* \(\d+ ms\)$", log, re.MULTILINE))
        for word, mark in (("passed", "OK"), ("failed", "FAILED"), ("skipped", "SKIPPED"))
    }
    for ran, words in re.findall(
        r"^Ran (\d+) tests? in .*\n\n(?:OK|FAILED)(?: \((.*)\))?$", log, re.MULTILINE
    ):
        counts = {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", words)}
        failed = counts.get("failures", 0) + counts.get("errors", 0)
        found["failed"] += failed
        found["skipped"] += counts.get("skipped", 0)
        found["passed"] += int(ran) - failed - counts.get("skipped", 0)
    return {word: count for word, count in found.items() if count}


def why_skipped(log: str) -> str:
    found = re.findall(r": Skipped\n(.+)|skipped '(.+)'", log)
    return "; ".join(dict.fromkeys(a or b for a, b in found))


def verdict(code: str, seconds: str, log: str) -> tuple[str, str]:
    """passed, failed, stopped, not run or running; and one line."""
    counts = counted(log)
    words = [", ".join(f"{count} {word}" for word, count in counts.items())]
    # memcheck's and racecheck's sums, of every process.
    sums = re.findall(r"ERROR SUMMARY: (\d+) error|\((\d+) errors?, \d+ warnings?\)", log)
    if sums:
        errors = sum(int(a or b) for a, b in sums)
        words.append(f"{errors} errors in {len(sums)} processes")
    said = "; ".join(filter(None, words))
    if not code.isdigit():
        return code, said
    unusable = next((line for line in log.splitlines() if UNUSABLE.search(line)), "")
    if code in ("124", "137", "143"):
        return "stopped", "; ".join(filter(None, [f"after {seconds} s", said]))
    if code == "77":
        return "not run", last_line(log)
    if unusable and code != "0" and not sums and not counts:
        return "not run", unusable.strip("= ")
    if code != "0" or (sums and errors):
        return "failed", said if counts.get("failed") or sums else f"exit code {code}: {last_line(log)}"
    if counts.get("skipped") and not counts.get("passed"):
        return "not run", why_skipped(log) or said
    return "passed", said


def steps(folder: Path) -> list[Json]:
    """In their order; the last one may be under way."""
    ended = [line.split("\t") for line in text_of(folder / "steps.tsv").splitlines()]
    names = {name for name, *_ in ended} | {"worker", "rebuild", "report"}
    under_way = [file.stem for file in folder.glob("*.log") if file.stem not in names]
    found = []
    for name, code, seconds in [*ended, *([name, "running", ""] for name in under_way)]:
        log = text_of(folder / f"{name}.log")
        result, words = verdict(code, seconds, log)
        found.append({
            "name": name, "result": result, "seconds": seconds, "words": words, "log": log
        })  # fmt: skip
    return found


def kernel_table(rows: list[Json]) -> list[list[str]]:
    lines = []
    for row in rows:
        if row.get("error"):
            lines.append([row["kernel"], row["shape"], row["error"], *["-"] * 5])
        elif "cache" in row:
            lines.append([
                row["kernel"], row["shape"],
                row["cache"] + ("" if row["finite"] else ", NOT FINITE"),
                f"{number(row['us_median'])} ({number(row['us_p10'])} to {number(row['us_p90'])})",
                number(row["bytes"] / 1e6), number(row["gb_per_s"]),
                f"{100 * row['share_of_copy']:.1f} %", number(row["tflop_per_s"]),
            ])  # fmt: skip
    return lines


def model_table(rows: list[Json]) -> list[list[str]]:
    lines = []
    for row in rows:
        name = f"{row['attention']} {row['img_size'][0]}x{row['img_size'][1]}"
        flops = row.get("gflops_per_image")
        rate = row.get("images_per_second", 0)
        if row.get("error"):
            numbers = ["-", row["error"], "-"]
        else:
            numbers = [number(row["ms_p50"]), number(rate), number(flops and rate * flops / 1e3)]
        lines.append([name, row["setting"], str(row["batch"]), *numbers])
    return lines


def turns_table(records: Json) -> list[str]:
    """Milliseconds of everyone by round, or why there are none."""
    rounds = max((len(record["rounds"]) for record in records.values()), default=0)
    rows = []
    for index in range(rounds):
        taken = [(record["rounds"][index], record["message"]) for record in records.values()]
        cells = [number(turn["ms_p50"]) if turn else why or "-" for turn, why in taken]
        rows.append([str(index + 1), *cells])
    return lines_of_table(["round", *records], rows) if rows else []


def agreement_lines(model: Json) -> list[str]:
    return [
        f"- {each['device']} {each['precision']}: top-1 {each['top1']:.1f}, the class of the CPU in "
        f"float32 on {each['same_top1']} of {each['images']} pictures, there logits up to "
        f"{each['largest_difference']:.1e} apart"
        for each in model.get("agreement", {}).get("settings", [])
    ]


def page_of(folder: Path, found: list[Json]) -> str:
    rows = [
        row for name in ("replays", "kernels") for row in json_lines(text_of(folder / f"{name}.log"))
    ]
    kernels = [row for row in rows if "kernel" in row]
    try:
        model = json.loads(text_of(folder / "model.json"))
    except ValueError:
        model = {}
    page = Page([f"# hydrascope on a GPU: {folder.name}"])
    lines = [[each["name"], each["result"], each["seconds"], each["words"]] for each in found]
    page.table("Steps", ["step", "result", "s", ""], lines, left=2)
    words = {True: "reached", False: "missed", None: "not measured"}
    lines = [
        [each["work"], each["target"], each["measured"] or "-", number(each["ratio"]),
         words[each["reached"]]]
        for each in targets.table([row for row in kernels if "cache" in row], model)
    ]  # fmt: skip
    page.table("Targets", ["work", "target", "measured", "ratio", ""], lines, left=3)
    for each in found:
        troubles = [line for line in each["log"].splitlines() if TROUBLE.search(line)]
        if troubles and each["result"] != "not run":
            page.section(f"Troubles of {each['name']}", ["```", *troubles[:MOST_TROUBLES], "```"])
    lines = [
        [row["kernel"], row["shape"], str(row["replays"]), str(row["different_words"])]
        for row in kernels if "replays" in row
    ]  # fmt: skip
    page.table("Replays", ["kernel", "shape", "calls", "words that differed"], lines, left=2)
    head = ["kernel", "shape", "L2", "us (p10 to p90)", "MB", "GB/s", "of the copy", "TFLOP/s"]
    page.table("Kernels", head, kernel_table(kernels), left=3)
    head = ["DeiT-B", "by", "batch", "ms", "images/s", "TFLOP/s"]
    page.table("Models", head, model_table(model.get("rows", [])), left=2)
    for name, records in model.get("turns", {}).items():
        page.section(f"Milliseconds in turns: {name}", turns_table(records))
    page.section("CPU and GPU", agreement_lines(model))
    page.section("Remarks", [f"- {line}" for line in model.get("remarks", [])])
    probe = text_of(folder / "probe.log").splitlines()
    page.section("The machine", ["```", *probe, "```"] if probe else [])
    return page.text()


def main(words: list[str]) -> int:
    if len(words) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(words[0])
    found = steps(folder)
    (folder / "report.md").write_text(page_of(folder, found), encoding="utf-8")
    return 0 if all(each["result"] in ("passed", "not run") for each in found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
