"""Lists the tests that ctest skipped, and why; exits with 1 if one of them may not be skipped.

    ctest --output-junit FILE.xml --test-output-size-passed 1000000 ...
    python3 scripts/skipped_tests.py FILE.xml [--strict] [--allow 'TEST | REASON']

Programs that run many tests in one process say in their output what they skip; the rest is a test of its own. What may be skipped is in
tests/allowed_skips.txt: a line per rule, `test | reason | why`, the first two with the wildcards of a shell; --allow adds one, for builds
that lack something on purpose. Without --strict an unlisted skip is only marked.
"""

from __future__ import annotations

import argparse
import re
import sys
import xml.etree.ElementTree
from collections import defaultdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

ALLOWED = Path(__file__).resolve().parents[1] / "tests" / "allowed_skips.txt"
# The lines that gtest prints of a test that skips itself; the reason may have several lines.
GTEST_SKIP = re.compile(
    r"^[^\n]+:\d+: Skipped\n(?P<reason>.*?)\n*^\[  SKIPPED \] (?P<test>\S+) \(\d+ ms\)$", re.MULTILINE | re.DOTALL)


class Skip(NamedTuple):
    test: str
    reason: str


class Rule(NamedTuple):
    test: str
    reason: str

    def allows(self, skip: Skip) -> bool:
        return fnmatchcase(skip.test, self.test) and fnmatchcase(skip.reason, self.reason)


def read_rules(text: str) -> list[Rule]:
    rules = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = [field.strip() for field in line.split("|")]
        if len(fields) != 3 or not all(fields):
            raise ValueError(f"line {number}: expected test | reason | why, found: {line}")
        rules.append(Rule(fields[0], fields[1]))
    return rules


def one_line(text: str) -> str:
    return " ".join(text.split())


def read_skips(junit: str) -> list[Skip]:
    """Every skipped test of a JUnit file of ctest."""
    skips = []
    for case in xml.etree.ElementTree.fromstring(junit).iter("testcase"):
        name = case.get("name", "")
        output = case.findtext("system-out") or ""
        inside = [Skip(found["test"], one_line(found["reason"])) for found in GTEST_SKIP.finditer(output)]
        if inside:
            is_alone = len(inside) == 1 and case.find("skipped") is not None
            skips += [Skip(name, inside[0].reason)] if is_alone else inside
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            said = re.search(r"^skipped: (.*)$", output, re.MULTILINE | re.IGNORECASE)
            skips.append(Skip(name, one_line(said[1]) if said else "says nothing"))
    return skips


def report(skips: list[Skip], rules: list[Rule]) -> tuple[list[str], list[Skip]]:
    """The lines to print, and what no rule allows."""
    unexpected = [skip for skip in skips if not any(rule.allows(skip) for rule in rules)]
    by_reason = defaultdict(list)
    for skip in skips:
        by_reason[skip.reason].append(skip.test + (" (UNEXPECTED)" if skip in unexpected else ""))
    lines = [f"skipped: {len(skips)} tests"]
    for reason, names in sorted(by_reason.items()):
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        lines.append(f"  {len(names):4}  {reason}: {', '.join(names[:3])}{more}")
    return lines, unexpected


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("junit", type=Path, help="what ctest wrote with --output-junit")
    parser.add_argument("--strict", action="store_true", help="an unlisted skip is a failure")
    parser.add_argument("--allow", metavar="RULE", help="one more rule: test | reason")
    arguments = parser.parse_args()
    rules = read_rules(ALLOWED.read_text())
    if arguments.allow:
        rules += read_rules(arguments.allow + " | told by --allow")
    lines, unexpected = report(read_skips(arguments.junit.read_text(errors="replace")), rules)
    print("\n".join(lines))
    if not unexpected or not arguments.strict:
        return 0
    for skip in unexpected:
        print(f"error: {skip.test} may not be skipped: {skip.reason}", file=sys.stderr)
    print(f"hint: a test that may be skipped stands in {ALLOWED.name}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
