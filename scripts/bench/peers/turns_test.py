"""Tests of turns.py, timing.py, noise.py, processes.py and worker.py. Standard library only."""

import dataclasses
import os
import sys
import unittest
from typing import Any

import noise
import processes
import timing
import turns
from pretended import Pretended

CRASH = """
print(json.dumps({"kernel": "before"}), flush=True)
sys.exit("error: CUDA says: no")
"""
WORKER = """
for line in sys.stdin:
    job = json.loads(line)
    if job["do"] == "exit":
        sys.exit("gone")
    if job["do"] == "kill":
        os.kill(os.getpid(), 9)
    time.sleep(job.get("seconds", 0))
    print(json.dumps({"did": job["do"]} if job["do"] != "fail" else {"error": "no"}), flush=True)
"""


class Statistics(unittest.TestCase):
    def test_percentiles_lie_between_ranks(self) -> None:
        self.assertEqual(turns.percentile([3.0, 1.0, 2.0], 50), 2.0)
        self.assertAlmostEqual(turns.percentile([1.0, 2.0], 90), 1.9)
        self.assertEqual(turns.percentile([7.0], 10), 7.0)
        self.assertIsNone(turns.spread([]))

    def test_ratios_need_both_sides_of_a_round(self) -> None:
        found = turns.ratio([10.0, None, 30.0], [5.0, 5.0, None])
        self.assertEqual(found and (found["rounds"], found["median"]), (1, 2))
        self.assertIsNone(turns.ratio([10.0], []))


class Rounds(Pretended):
    def test_each_begins_with_the_next_and_who_fails_is_not_asked_again(self) -> None:
        asked: list[str] = []

        def turn(name: str, message: str = "") -> turns.Turn:
            def measure() -> dict[str, Any]:
                asked.append(name)
                if name == "broken":
                    raise processes.Failure("out of memory")
                return {"ms_p50": float(len(asked))}

            return turns.Turn(name, turns.new_record(message), measure)

        taken = [turn("a"), turn("broken"), turn("missing", "not installed"), turn("b")]
        turns.take_turns(taken, 3)
        self.assertEqual(asked, ["a", "broken", "b", "b", "a", "b", "a"])
        self.assertEqual(turns.by_round(taken[0].record), [1, 5, 7])
        self.assertEqual(taken[1].record, {"rounds": [None] * 3, "message": "out of memory"})
        self.assertEqual(taken[2].record["message"], "not installed")


class Timing(unittest.TestCase):
    def test_a_measurement_is_warm_when_its_medians_are_level(self) -> None:
        self.assertFalse(timing.settled([1.0] * 5))
        self.assertTrue(timing.settled([9, 9, 9, 1.0, 1.01, 1.0, 1.0, 1.01, 5]))
        self.assertFalse(timing.settled([2, 2, 2, 1, 1, 1]))
        self.assertFalse(timing.is_warm([], 11, {}), "at least one pass")
        self.assertTrue(timing.is_warm([1.0], 11, {}), "or long enough")
        self.assertFalse(timing.is_warm([1.0], 11, {"warmup": 2}))

    def test_it_is_enough_after_five_passes_and_the_duration_or_the_passes_asked_for(self) -> None:
        job = {"duration": 0.0}
        times, last = timing.times_of(lambda: "logits", lambda *past: timing.is_enough(*past, job))
        self.assertEqual((len(times), last), (5, "logits"))
        self.assertFalse(timing.is_enough(times, 1, {"duration": 2}))
        self.assertTrue(timing.is_enough([1.0], 0, {"iters": 1, "duration": 2}))
        self.assertEqual(timing.summary([3.0, 1.0, 2.0])["ms_p50"], 2)
        self.assertGreater(timing.peak_memory_bytes(), 1e6)


class Noise(Pretended):
    def test_shares_are_of_all_processors_and_guests_count_once(self) -> None:
        first = self.put("a", "cpu  100 0 100 800 0 0 0 0 50 0\ncpu0 1 2 3\n")
        last = self.put("b", "cpu  600 100 200 1000 60 20 10 10 400 0\n")
        before, after = noise.moment(first), noise.moment(last)
        assert before is not None and after is not None
        # 1000 ticks later, 730 of them busy; the children took 500 of these.
        tick = 1 / os.sysconf("SC_CLK_TCK")
        after = dataclasses.replace(after, children=before.children + 500 * tick)
        found = noise.between(before, after)
        self.assertAlmostEqual(found["steal_percent"], 1)
        self.assertAlmostEqual(found["others_percent"], 23)
        self.assertEqual(noise.excess(found), ["others"])

    def test_nothing_is_known_without_the_file(self) -> None:
        self.assertIsNone(noise.moment(self.folder / "none"))
        self.assertIsNone(noise.moment(self.put("c", "other 1\n")))
        self.assertEqual(noise.between(None, noise.moment()), {})


class Processes(Pretended):
    def worker(self, text: str = WORKER, seconds: float = 60) -> processes.Worker:
        command = [str(self.program("worker", text))]
        found = processes.Worker(command, self.folder / "log", processes.Clock(seconds))
        self.addCleanup(found.end)
        return found

    def test_lines_that_were_printed_before_an_end_count(self) -> None:
        clock = processes.Clock(60)
        output, why = processes.run([str(self.program("crash", CRASH))], clock)
        self.assertEqual(processes.json_lines(output + '{"cut": '), [{"kernel": "before"}])
        self.assertEqual(why, "CUDA says: no")

    def test_a_process_that_takes_too_long_is_stopped(self) -> None:
        sleeper = self.program("sleeper", "print('{}', flush=True)\ntime.sleep(60)")
        output, why = processes.run([str(sleeper)], processes.Clock(60), most=1)
        self.assertEqual((output, why), ("{}\n", "took longer than 1 s"))

    def test_a_program_that_is_missing_is_a_failure(self) -> None:
        with self.assertRaisesRegex(processes.Failure, "cannot be started"):
            processes.run([str(self.folder / "nothing")], processes.Clock(60))

    def test_errors_are_one_line(self) -> None:
        self.assertEqual(processes.last_line("a\nerror: b\nhint: c\n"), "b")
        self.assertEqual(processes.last_line(""), "no message")

    def test_a_worker_that_ended_says_why_and_begins_again(self) -> None:
        one = self.worker()
        for job, why in (
            ({"do": "fail"}, "^no$"),
            ({"do": "exit"}, "its process ended: gone"),
            ({"do": "kill"}, "its process ended: killed by SIGKILL"),
            ({"do": "sleep", "seconds": 60}, "took longer than 1 s"),
        ):
            with self.assertRaisesRegex(processes.Failure, why):
                one.ask(1 if "seconds" in job else 60, **job)
            self.assertEqual(one.ask(do="well"), {"did": "well"})

    def test_what_the_worker_cannot_do_is_an_answer(self) -> None:
        command = [sys.executable, "-B", str(processes.HERE / "worker.py")]
        one = processes.Worker(command, self.folder / "log", processes.Clock(60))
        self.addCleanup(one.end)
        for job in ({"do": "nothing"}, {"do": "versions", "kind": "nobody"}):
            with self.assertRaisesRegex(processes.Failure, "KeyError: 'no"):
                one.ask(**job)
