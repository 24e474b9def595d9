"""scripts/skipped_tests.py: what it finds in ctest's JUnit files, and what it lets pass."""

import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import skipped_tests  # noqa: E402
from skipped_tests import Rule, Skip  # noqa: E402

SEVERAL = """[==========] Running 3 tests.
[ RUN      ] A.Runs
[       OK ] A.Runs (0 ms)
[ RUN      ] A.IsSkipped
/source/a_test.cpp:7: Skipped
no GPU: none
is there

[  SKIPPED ] A.IsSkipped (0 ms)
[ RUN      ] B/All.IsToo/3
/source/b_test.cpp:9: Skipped
no map

[  SKIPPED ] B/All.IsToo/3 (12 ms)
[  PASSED  ] 1 test.
[  SKIPPED ] 2 tests, listed below:
[  SKIPPED ] A.IsSkipped
[  SKIPPED ] B/All.IsToo/3
"""
JUNIT = f"""<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="Linux-c++" tests="4">
  <testcase name="fine" status="run"><system-out>SKIPPED: is only printed</system-out></testcase>
  <testcase name="program.0" status="run"><system-out>{SEVERAL}</system-out></testcase>
  <testcase name="Alone.Case" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
    <system-out>[ RUN      ] Alone.Case
/source/c_test.cpp:1: Skipped
zsh is not installed

[  SKIPPED ] Alone.Case (0 ms)
</system-out></testcase>
  <testcase name="script" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>
    <system-out>skipped: no torch
</system-out></testcase>
  <testcase name="silent" status="notrun"><skipped message=""/><system-out></system-out></testcase>
</testsuite>
"""
SKIPS = [
    Skip("A.IsSkipped", "no GPU: none is there"),
    Skip("B/All.IsToo/3", "no map"),
    Skip("Alone.Case", "zsh is not installed"),
    Skip("script", "no torch"),
    Skip("silent", "says nothing"),
]


class SkippedTests(unittest.TestCase):
    def test_finds_tests_and_reasons(self):
        self.assertEqual(skipped_tests.read_skips(JUNIT), SKIPS)

    def test_what_no_rule_allows_is_marked(self):
        rules = [Rule("A.*", "no GPU: *"), Rule("*", "no map"), Rule("script", "no GPU: *")]
        lines, unexpected = skipped_tests.report(SKIPS, rules)
        self.assertEqual(unexpected, SKIPS[2:])
        self.assertEqual(lines[0], "skipped: 5 tests")
        self.assertIn("     1  no map: B/All.IsToo/3", lines)
        self.assertIn("     1  no torch: script (UNEXPECTED)", lines)

    def test_many_of_one_reason_are_one_line(self):
        skips = [Skip(f"T.{i}", "why") for i in range(5)]
        lines, _ = skipped_tests.report(skips, [Rule("*", "*")])
        self.assertEqual(lines[1:], ["     5  why: T.0, T.1, T.2 and 2 more"])

    def test_rules_are_whole(self):
        self.assertEqual(
            skipped_tests.read_rules("# comment\n\nA.* | no GPU: * | none here\n"),
            [Rule("A.*", "no GPU: *")],
        )
        for line in ("A.*", "A.* | reason", "A.* | reason |", "A | b | c | d"):
            with self.assertRaisesRegex(ValueError, "line 1"):
                skipped_tests.read_rules(line)

    def test_the_list_can_be_read(self):
        self.assertGreater(len(skipped_tests.read_rules(skipped_tests.ALLOWED.read_text())), 0)


if __name__ == "__main__":
    unittest.main()
