#!/usr/bin/env python3
"""Event files through TensorBoard's own reader: tensorboard_test.py SAMPLE_EVENTS [--packages FOLDER]

SAMPLE_EVENTS writes them. TensorBoard is looked for in FOLDER too, where scripts/setup.sh puts it. Exits
with 77 where it is missing.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77
arguments = None


class EventFile(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        subprocess.run([arguments.sample_events, self.folder.name], check=True)

    def events(self):
        files = list(pathlib.Path(self.folder.name).glob("events.out.tfevents.*"))
        self.assertEqual(len(files), 1)
        # Of the two loaders this is the one that gives the messages as they stand in the file.
        return list(event_file_loader.LegacyEventFileLoader(str(files[0])).Load())

    def test_begins_with_the_version(self):
        self.assertEqual(self.events()[0].file_version, "brain.Event:2")

    def test_holds_every_step_once(self):
        events = self.events()[1:]
        self.assertEqual([event.step for event in events], [*range(100, 1001, 100), 1000])
        self.assertEqual(sorted(event.wall_time for event in events), [event.wall_time for event in events])
        for event in events[:-1]:
            values = {value.tag: value.simple_value for value in event.summary.value}
            self.assertEqual(set(values), {"train/loss", "train/lr"})
            self.assertAlmostEqual(values["train/loss"], 1 / event.step, delta=1e-9)
            self.assertAlmostEqual(values["train/lr"], 1e-3 * event.step, delta=1e-6)
        (last,) = events[-1].summary.value
        self.assertEqual((last.tag, last.simple_value), ("eval/top1", 84.5))

    def test_is_what_the_dashboard_shows(self):
        accumulator = event_accumulator.EventAccumulator(self.folder.name)
        accumulator.Reload()
        self.assertEqual(len(accumulator.Scalars("train/loss")), 10)
        self.assertEqual(accumulator.Scalars("eval/top1")[0].value, 84.5)


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("sample_events")
parser.add_argument("--packages", default="", help="a folder for Python's path")
arguments = parser.parse_args()
sys.path.append(arguments.packages)
try:
    from tensorboard.backend.event_processing import event_accumulator, event_file_loader
except ImportError as error:
    print(f"SKIPPED: no TensorBoard for {sys.executable} ({error}); scripts/setup.sh fetches it")
    sys.exit(SKIPPED)
unittest.main(argv=sys.argv[:1], verbosity=2)
