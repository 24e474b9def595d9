"""Tests of agreement.py."""

import array
import struct
from pathlib import Path

import agreement
from pretended import Folder
from processes import Failure

NAN = float("nan")


def write_npy(file: Path, rows: list[list[float]]) -> None:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(rows)}, {len(rows[0])}), }}"
    values = array.array("f", [value for row in rows for value in row])
    size = struct.pack("<H", len(header))
    file.write_bytes(agreement.MAGIC + b"\x01\x00" + size + header.encode() + values.tobytes())


class Compare(Folder):
    def setUp(self) -> None:
        super().setUp()
        self.a, self.b = (self.folder / name for name in ("a.npy", "b.npy"))

    def test_counts_pictures_with_the_same_top_class(self) -> None:
        write_npy(self.a, [[1, 2, 3], [3, 2, 1], [0, 5, 0], [NAN, NAN, NAN]])
        write_npy(self.b, [[1, 2, 3.5], [2, 3, 1], [0, 5, 0], [NAN, NAN, NAN]])
        found = agreement.compare(self.a, self.b)
        self.assertEqual((found["images"], found["same_top1"]), (3, 2))
        self.assertAlmostEqual(found["relative_difference"], (2.25 / 53) ** 0.5)

    def test_logits_that_are_missing_on_one_side_disagree(self) -> None:
        write_npy(self.a, [[1, 2]])
        write_npy(self.b, [[NAN, 2]])
        self.assertEqual(agreement.compare(self.a, self.b)["percent_same_top1"], 0)

    def test_files_that_do_not_belong_together_are_refused(self) -> None:
        write_npy(self.a, [[1, 2]])
        write_npy(self.b, [[1, 2, 3]])
        with self.assertRaisesRegex(Failure, "differ in shape"):
            agreement.compare(self.a, self.b)
        self.b.write_bytes(self.a.read_bytes()[:-4])
        with self.assertRaisesRegex(Failure, "cut off"):
            agreement.compare(self.a, self.b)
        self.b.write_bytes(b"no array")
        with self.assertRaisesRegex(Failure, "no .npy"):
            agreement.compare(self.a, self.b)


class Command(Folder):
    def test_labels_are_used_where_there_are_some(self) -> None:
        program, folder = Path("hydrascope"), self.folder
        self.assertEqual(agreement.command(program, folder)[1], "classify")
        (folder / "n01440764").mkdir()
        self.assertEqual(agreement.command(program, folder)[1:], ["evaluate", str(folder)])
        self.put("images.csv", "file,class_index\n")
        self.assertIn("--labels-csv", agreement.command(program, folder))
