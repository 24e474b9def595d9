"""Puts what gpu_check.sh left in FOLDER into gpu_report.json and gpu_report.md.

    report.py note FOLDER KEY=VALUE...              something for the report's head
    report.py stage FOLDER NAME STATUS SECONDS TEXT how a stage ended
    report.py judge FOLDER tests|sanitizer          prints "STATUS<tab>one line"
    report.py write FOLDER                          the two files

STATUS is passed, failed or "not run".
"""

import datetime
import json
import sys
from pathlib import Path
from typing import Any

import results
import targets

Json = dict[str, Any]
NAMES = ("gpu_report.json", "gpu_report.md")


def note(folder: Path, words: list[str]) -> None:
    file = folder / "environment.json"
    found = results.read_json(file)
    found |= dict(word.split("=", 1) for word in words)
    file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def record_stage(folder: Path, name: str, status: str, seconds: str, text: str) -> None:
    stages = folder / "stages"
    stages.mkdir(exist_ok=True)
    now = datetime.datetime.now(datetime.UTC)
    entry = {
        "stage": name, "status": status, "seconds": float(seconds), "message": text,
        "date": now.isoformat(timespec="seconds"), "order": now.timestamp(),
    }  # fmt: skip
    (stages / f"{name}.json").write_text(json.dumps(entry) + "\n", encoding="utf-8")


def collect(folder: Path) -> Json:
    header, kernels = results.kernel_rows(folder / "kernels" / "kernels.jsonl")
    model = results.read_json(folder / "model" / "model.json")
    conversion = results.read_json(folder / "conversion" / "conversion.json")
    tests = results.test_programs(folder / "tests")
    tools = results.sanitizer_tools(folder / "sanitizer")
    return {
        "schema": 1,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "environment": results.read_json(folder / "environment.json"),
        "device": header,
        "targets": targets.table(kernels, model, conversion),
        "stages": results.stages(folder / "stages"),
        "tests": tests,
        "sanitizer": tools,
        "kernels": kernels,
        "model": model,
        "conversion": conversion,
    }


def lines_of_table(head: list[str], rows: list[list[str]], left: int = 1) -> list[str]:
    """Columns from the `left`-th on are numbers."""

    def line(cells: list[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"

    rule = "|" + "---|" * left + "---:|" * (len(head) - left)
    return [line(head), rule, *map(line, rows)]


def number(value: float | None, digits: int = 3) -> str:
    if value is None:
        return "-"
    if value == 0 or abs(value) >= 10**digits:
        return f"{value:.0f}"
    return f"{value:#.{digits}g}".rstrip(".")


def target_rows(report: Json) -> list[list[str]]:
    verdicts = {True: "reached", False: "missed", None: "not measured"}
    rows = []
    for each in report["targets"]:
        measured, verdict = each["measured"] or "-", verdicts[each["reached"]]
        if each["reached"] is None and not has_gpu(report):
            verdict = "not run: no GPU"
        rows.append([each["work"], each["target"], measured, number(each["ratio"]), verdict])
    return rows


def has_gpu(report: Json) -> bool:
    return bool(report["environment"].get("gpu"))


def kernel_table(report: Json) -> list[list[str]]:
    rows = []
    for row in report["kernels"]:
        if row.get("error"):
            rows.append([row["kernel"], row["shape"], "failed", row["error"], *[""] * 4])
            continue
        spread = f"({number(row['us_p10'])} to {number(row['us_p90'])})"
        rows.append(
            [
                row["kernel"],
                row["shape"],
                row["cache"] + ("" if row["finite"] else ", NOT FINITE"),
                f"{number(row['us_median'])} {spread}",
                number(row["bytes"] / 1e6),
                number(row["gb_per_s"]),
                f"{100 * row['share_of_copy']:.1f} %",
                number(row["tflop_per_s"]),
            ]
        )
    return rows


def model_table(report: Json) -> list[list[str]]:
    rows = []
    for row in report["model"].get("rows", []):
        name = f"{row['attention']} {row['img_size'][0]}x{row['img_size'][1]}"
        who = row["setting"]
        if row.get("kernels"):
            who += f" ({row['kernels']})"
        if row.get("error"):
            rows.append([name, who, str(row["batch"]), "-", row["error"], "-"])
            continue
        flops = row.get("gflops_per_image")
        tflops = flops and row["images_per_second"] * flops / 1e3
        rows.append(
            [
                name,
                who,
                str(row["batch"]),
                number(row["ms_median"]),
                number(row["images_per_second"]),
                number(tflops),
            ]
        )
    return rows


def softmax_table(report: Json) -> list[list[str]]:
    rows = []
    for index, turn in enumerate(report["model"].get("hedgehog_turns", []), 1):
        errors = turn.get("sdpa_errors", {})
        cells = [
            number(turn["sdpa_ms"][name]) if name in turn["sdpa_ms"] else errors.get(name, "-")
            for name in ("flash", "cudnn", "efficient")
        ]
        rows.append([str(index), number(turn.get("hedgehog_ms")), *cells])
    return rows


def test_lines(report: Json) -> list[str]:
    rows = [
        [each["program"], str(each["passed"]), str(each["failed"]), str(each["skipped"])]
        for each in report["tests"]
    ]
    text = lines_of_table(["program", "passed", "failed", "skipped"], rows) if rows else []
    for each in report["tests"]:
        text += [f"- {trouble}" for trouble in each["troubles"] + each["reasons"]]
        for failure in each["failures"]:
            text += ["", f"`{failure['test']}`", "", "```", failure["message"], "```"]
    return text


def sanitizer_lines(report: Json) -> list[str]:
    text = []
    for each in report["sanitizer"]:
        text.append(
            f"- {each['tool']}: {each['errors']} errors, {each['finished']} of "
            f"{each['processes']} processes watched to their end"
        )
        text += [f"  - {line}" for line in each["troubles"] + each["reports"]]
    return text


def agreement_lines(report: Json) -> list[str]:
    rows = []
    for each in report["model"].get("agreement", {}).get("settings", []):
        same = "percent_same_top1" in each
        rows.append(
            [
                f"{each['device']} {each['precision']}",
                f"{each['top1']:.1f}" if "top1" in each else "-",
                f"{each['same_top1']} of {each['images']}" if same else "-",
                f"{each['percent_same_top1']:.1f} %" if same else "-",
                f"{each['relative_difference']:.1e}" if same else "-",
            ]
        )
    if not rows:
        return []
    head = ["setting", "top-1", "same top-1 as CPU float32", "", "logits, relative difference"]
    return lines_of_table(head, rows)


def heading(report: Json) -> list[str]:
    environment = report["environment"]
    gpu = environment.get("gpu") or f"not run: no GPU ({environment.get('no_gpu', 'none found')})"
    text = [
        "# hydrascope on a GPU", "", f"- GPU: {gpu}", f"- {report['date']}",
        f"- commit {environment.get('commit', 'unknown')}",
    ]  # fmt: skip
    skipped = {"gpu", "no_gpu", "commit"}
    text += [f"- {key}: {value}" for key, value in environment.items() if key not in skipped]
    versions = report["model"].get("header", {}).get("versions", {})
    if versions:
        text.append("- " + ", ".join(f"{name} {version}" for name, version in versions.items()))
    rates = [number(each["tflops"]) for each in report["model"].get("matrix_rate", [])]
    if rates:
        text.append(f"- bf16 product of random matrices of 8192: {', '.join(rates)} TFLOP/s")
    return text


def markdown(report: Json) -> str:
    text = heading(report)

    def section(title: str, lines: list[str]) -> None:
        if lines:
            text.extend(["", f"## {title}", "", *lines])

    head = ["work", "target", "measured", "ratio", ""]
    section("Targets", lines_of_table(head, target_rows(report), left=3))
    stages = [
        [each["stage"], each["status"], f"{each['seconds']:.0f}", each["message"]]
        for each in report["stages"]
    ]
    if stages:
        section("Stages", lines_of_table(["stage", "result", "s", ""], stages, left=4))
    section("Tests", test_lines(report))
    section("compute-sanitizer", sanitizer_lines(report))
    if report["kernels"]:
        head = ["kernel", "shape", "L2", "us (p10 to p90)", "MB", "GB/s", "of the copy", "TFLOP/s"]
        section("Kernels", lines_of_table(head, kernel_table(report), left=3))
    if report["model"].get("hedgehog_turns"):
        head = ["round", "hedgehog", "flash", "cudnn", "efficient"]
        title = "Milliseconds at 32768 tokens, 12 heads, d 64: Hedgehog and softmax in turns"
        section(title, lines_of_table(head, softmax_table(report)))
    if report["model"].get("rows"):
        head = ["ViT-B", "by", "batch", "ms", "images/s", "TFLOP/s"]
        section("Models", lines_of_table(head, model_table(report), left=2))
    section("CPU and GPU", agreement_lines(report))
    section("Remarks", [f"- {line}" for line in report["model"].get("remarks", [])])
    return "\n".join(text) + "\n"


def write(folder: Path) -> None:
    report = collect(folder)
    raw, page = (folder / name for name in NAMES)
    raw.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    page.write_text(markdown(report), encoding="utf-8")


def judge(folder: Path, what: str) -> str:
    if what == "tests":
        return "\t".join(results.judge_tests(results.test_programs(folder / what)))
    return "\t".join(results.judge_sanitizer(results.sanitizer_tools(folder / what)))


def main(words: list[str]) -> int:
    if len(words) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    action, folder, rest = words[0], Path(words[1]), words[2:]
    if action == "note":
        note(folder, rest)
    elif action == "stage" and len(rest) == 4:
        record_stage(folder, *rest)
    elif action == "judge" and rest[0] in ("tests", "sanitizer"):
        print(judge(folder, rest[0]))
    elif action == "write":
        write(folder)
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
