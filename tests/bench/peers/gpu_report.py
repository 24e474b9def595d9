"""Puts what gpu_check.sh left in FOLDER into gpu_report.json and gpu_report.md.

    gpu_report.py note FOLDER KEY=VALUE...              something for the report's head
    gpu_report.py stage FOLDER NAME STATUS SECONDS TEXT how a stage ended
    gpu_report.py judge FOLDER tests|sanitizer          prints "STATUS<tab>one line"
    gpu_report.py write FOLDER                          the two files

STATUS is passed, failed or "not run".
"""

import datetime
import sys
from pathlib import Path

import gpu_results as results
import gpu_targets as targets
from pages import Page, lines_of_table, number
from processes import Json, write_json

NAMES = ("gpu_report.json", "gpu_report.md")


def note(folder: Path, words: list[str]) -> None:
    file = folder / "environment.json"
    found = results.read_json(file)
    found |= dict(word.split("=", 1) for word in words)
    write_json(file, found)


def record_stage(folder: Path, name: str, status: str, seconds: str, text: str) -> None:
    stages = folder / "stages"
    stages.mkdir(exist_ok=True)
    now = datetime.datetime.now(datetime.UTC)
    entry = {
        "stage": name, "status": status, "seconds": float(seconds), "message": text,
        "date": now.isoformat(timespec="seconds"), "order": now.timestamp(),
    }  # fmt: skip
    write_json(stages / f"{name}.json", entry)


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
        "targets": targets.table(targets.Measured(kernels, model, conversion)),
        "stages": results.stages(folder / "stages"),
        "tests": tests,
        "sanitizer": tools,
        "kernels": kernels,
        "model": model,
        "conversion": conversion,
    }


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
                number(row["ms_p50"]),
                number(row["images_per_second"]),
                number(tflops),
            ]
        )
    return rows


def softmax_table(records: Json) -> tuple[list[str], list[list[str]]]:
    """Milliseconds of everyone by round, or why there are none."""
    rounds = max((len(record["rounds"]) for record in records.values()), default=0)
    rows = []
    for index in range(rounds):
        taken = [(record["rounds"][index], record["message"]) for record in records.values()]
        cells = [number(turn["ms_p50"]) if turn else why or "-" for turn, why in taken]
        rows.append([str(index + 1), *cells])
    return ["round", *records], rows


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
    model = report["model"]
    page = Page(heading(report))
    head = ["work", "target", "measured", "ratio", ""]
    page.table("Targets", head, target_rows(report), left=3)
    stages = [
        [each["stage"], each["status"], f"{each['seconds']:.0f}", each["message"]]
        for each in report["stages"]
    ]
    page.table("Stages", ["stage", "result", "s", ""], stages, left=4)
    page.section("Tests", test_lines(report))
    page.section("compute-sanitizer", sanitizer_lines(report))
    head = ["kernel", "shape", "L2", "us (p10 to p90)", "MB", "GB/s", "of the copy", "TFLOP/s"]
    page.table("Kernels", head, kernel_table(report), left=3)
    title = "Milliseconds at 32768 tokens, 12 heads, d 64: Hedgehog and softmax in turns"
    page.table(title, *softmax_table(model.get("turns", {}).get("hedgehog", {})))
    page.table(
        "Models", ["ViT-B", "by", "batch", "ms", "images/s", "TFLOP/s"], model_table(report), left=2
    )
    page.section("CPU and GPU", agreement_lines(report))
    page.section("Remarks", [f"- {line}" for line in model.get("remarks", [])])
    return page.text()


def write(folder: Path) -> None:
    report = collect(folder)
    raw, page = (folder / name for name in NAMES)
    write_json(raw, report)
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
