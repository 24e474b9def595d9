"""What gpu_check.sh's stages left in its folder, read back: tests, sanitizers, kernels, models. A
file that is missing or cut off is a result to report, never an error."""

import json
import re
from pathlib import Path
from typing import Any

from processes import json_lines

Json = dict[str, Any]

# A message of the tool itself, where it cannot watch the program at all.
UNUSABLE = re.compile(
    r"Device not supported|not supported on this|Unable to|failed to initialize|"
    r"Failed to initialize|No attachable process|Internal Sanitizer Error|LibraryNotLoaded",
    re.IGNORECASE,
)


def read_json(file: Path) -> Json:
    try:
        found: Json = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def exit_code(folder: Path, name: str) -> int | None:
    text = read_text(folder / f"{name}.exit").strip()
    return int(text) if text.lstrip("-").isdigit() else None


def ended(code: int | None) -> str:
    """How a process that left no result ended."""
    if code is None:
        return "did not run"
    if code in (124, 137):
        return "stopped: its time was over"
    return f"ended with exit code {code}"


def test_programs(folder: Path) -> list[Json]:
    """A program (shards together) each: counts, failures, what went wrong beside them. Every
    process leaves NAME[.SHARD].exit, and NAME[.SHARD].json where it came to its end."""
    programs: dict[str, Json] = {}
    for file in sorted(folder.glob("*.exit")):
        process = file.name.removesuffix(".exit")
        name = re.sub(r"\.\d+$", "", process)
        own = programs.setdefault(
            name,
            {
                "program": name, "passed": 0, "failed": 0, "skipped": 0,
                "failures": [], "reasons": [], "troubles": [],
            },
        )  # fmt: skip
        report, code = read_json(folder / f"{process}.json"), exit_code(folder, process)
        # Why a test was skipped is in what the process printed, not in its report.
        log = read_text(folder / f"{process}.log")
        own["reasons"] = sorted({*own["reasons"], *re.findall(r": Skipped\n(.+)", log)})
        if count_unittest(own, log):
            continue
        if not report:
            own["troubles"].append(f"{process} {ended(code)} and left no result")
        before = own["failed"]
        for suite in report.get("testsuites", []):
            for test in suite.get("testsuite", []):
                count_test(own, suite["name"], test)
        if report and code not in (0, None) and own["failed"] == before:
            own["troubles"].append(f"{process} {ended(code)}, although no test failed")
    return list(programs.values())


def count_test(own: Json, suite: str, test: Json) -> None:
    messages = [each.get("failure", "") for each in test.get("failures", [])]
    if messages:
        own["failed"] += 1
        own["failures"].append({"test": f"{suite}.{test['name']}", "message": messages[0][:2000]})
    elif test.get("result") == "SKIPPED":
        own["skipped"] += 1
    elif test.get("status") == "RUN":
        own["passed"] += 1


def count_unittest(own: Json, log: str) -> bool:
    """Of a Python program, whose result is in what it printed; whether this is one."""
    ran = re.search(r"^Ran (\d+) tests? in .*\n\n(OK|FAILED)(?: \((.*)\))?$", log, re.MULTILINE)
    if ran is None:
        return False
    counts = {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", ran[3] or "")}
    failed = counts.get("failures", 0) + counts.get("errors", 0)
    own["failed"] += failed
    own["skipped"] += counts.get("skipped", 0)
    own["passed"] += int(ran[1]) - failed - counts.get("skipped", 0)
    for each in re.finditer(r"^(?:FAIL|ERROR): (.*)\n-+\n((?:.*\n)*?)\n", log, re.MULTILINE):
        own["failures"].append({"test": each[1], "message": each[2][-2000:]})
    return True


def judge_tests(programs: list[Json]) -> tuple[str, str]:
    """Status (passed, failed, not run) and one line."""
    passed, failed, skipped = (
        sum(each[what] for each in programs) for what in ("passed", "failed", "skipped")
    )
    troubles = [text for each in programs for text in each["troubles"]]
    words = f"{passed} passed, {failed} failed, {skipped} skipped"
    if failed or troubles:
        return "failed", "; ".join([words, *troubles])
    if skipped > passed:  # the stage runs where there is a GPU: the program does not see it
        reasons = [text for each in programs for text in each["reasons"]]
        return "failed", "; ".join([words, *reasons])
    return ("passed" if passed else "not run"), words


def sanitizer_tools(folder: Path) -> list[Json]:
    """A tool (shards together) each: errors found, or why it said nothing. Every process leaves
    TOOL.SHARD.log, what the tool said, and TOOL.SHARD.exit."""
    tools: dict[str, Json] = {}
    for file in sorted(folder.glob("*.exit")):
        process = file.name.removesuffix(".exit")
        name = process.split(".")[0]
        own = tools.setdefault(
            name, {"tool": name, "processes": 0, "finished": 0, "errors": 0, "reports": [],
                   "troubles": []},
        )  # fmt: skip
        own["processes"] += 1
        text = read_text(folder / f"{process}.log")
        found = [int(count) for count in re.findall(r"ERROR SUMMARY: (\d+) error", text)]
        found += [int(count) for count in re.findall(r"\((\d+) errors?, \d+ warnings?\)", text)]
        errors = [
            line.removeprefix("=========").strip()
            for line in text.splitlines()
            if re.match(r"=+ (Error|Invalid|Race reported|ERROR: |Barrier error|Program hit)", line)
        ]
        if found and not UNUSABLE.search(text):
            own["finished"] += 1
            own["errors"] += max(found)
            own["reports"] += errors[:20]
            continue
        why = UNUSABLE.search(text)
        lines = [line.strip("= ") for line in text.splitlines() if line.strip("= ")]
        if why:
            line = next(line for line in lines if UNUSABLE.search(line))
            own["troubles"].append(f"does not work here: {line}")
        else:
            own["troubles"].append(f"{process} {ended(exit_code(folder, process))}")
    for own in tools.values():
        own["troubles"] = list(dict.fromkeys(own["troubles"]))
    return list(tools.values())


def judge_sanitizer(tools: list[Json]) -> tuple[str, str]:
    errors = sum(each["errors"] for each in tools)
    words = "; ".join(
        f"{each['tool']}: {each['errors']} errors, {each['finished']} of {each['processes']} "
        "processes watched to their end"
        + (f" ({'; '.join(each['troubles'])})" if each["troubles"] else "")
        for each in tools
    )
    if errors:
        return "failed", words
    if not any(each["finished"] for each in tools):
        return "not run", words or "no tool ran"
    return "passed", words


def kernel_rows(file: Path) -> tuple[Json, list[Json]]:
    """kernel_bench's header and rows."""
    lines = json_lines(read_text(file))
    header = next((line["header"] for line in lines if "header" in line), {})
    return header, [line for line in lines if "kernel" in line]


def stages(folder: Path) -> list[Json]:
    """In the order in which they ran."""
    found = [read_json(file) for file in folder.glob("*.json")]
    return sorted((each for each in found if each), key=lambda each: each["order"])
