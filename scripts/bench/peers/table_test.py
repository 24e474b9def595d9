"""Tests of table.py and figure.py. Standard library only."""

import json
import unittest
import xml.etree.ElementTree
from typing import Any

import figure
import table

TIMM = {"name": "timm-fp32", "title": "timm", "kind": "timm", "precision": "float32"}
OPENVINO = {"name": "ov-bf16", "title": "OpenVINO", "kind": "openvino", "precision": "bfloat16"}
OWN_FP32 = {"name": "own-fp32", "title": "hydrascope", "kind": table.OWN, "precision": "float32"}
NNCF = {"name": "ov-int8", "title": "OpenVINO", "kind": "openvino-nncf", "precision": "int8"}
OWN_INT8 = {"name": "own-int8", "title": "hydrascope", "kind": table.OWN, "precision": "int8"}
OWN_BF16 = {"name": "own-bf16", "title": "hydrascope", "kind": table.OWN, "precision": "bfloat16"}
HEADER = {
    "processor": "Abacus", "instruction_sets": "beads", "processors": 2, "memory_gb": 24.0,
    "threads": 2, "rounds": 3, "date": "2026-01-01", "load_at_start": 0.5,
    "versions": {"timm": "1.0"},
}  # fmt: skip


def ran(*times: float | None, error: float | None = None, message: str = "") -> dict[str, Any]:
    extra = {} if error is None else {"relative_error": error}
    rounds = [time and {"ms_p50": time, "peak_memory_bytes": 5_000_000, **extra} for time in times]
    return {"rounds": rounds, "message": message}


def item(attention: str, results: dict[str, Any], batch: int = 1) -> dict[str, Any]:
    return {
        "name": f"DeiT-Ti 224x224 b{batch} {attention}", "model": "DeiT-Ti", "batch": batch,
        "img_size": [224, 224], "attention": attention, "results": results,
    }  # fmt: skip


def summarised(*items: dict[str, Any]) -> dict[str, Any]:
    contenders = [TIMM, OPENVINO, NNCF, OWN_FP32, OWN_BF16, OWN_INT8]
    result = {"header": HEADER, "contenders": contenders, "items": list(items)}
    table.summarise(result)
    return result


class Ratios(unittest.TestCase):
    def test_are_taken_within_a_round(self) -> None:
        """A round in which everything takes ten times as long changes no ratio."""
        found = summarised(
            item("softmax", {"timm-fp32": ran(20, 200, 22), "own-fp32": ran(10, 100, 11)})
        )["items"][0]["results"]["timm-fp32"]["summary"]["hydrascope_times_as_fast"]["same"]
        self.assertEqual((found["median"], found["p10"], found["p90"]), (2, 2, 2))

    def test_compare_equal_precisions_the_better_float_and_int8(self) -> None:
        results = {
            "timm-fp32": ran(30), "ov-bf16": ran(8), "ov-int8": ran(6), "own-fp32": ran(10), "own-bf16": ran(4), "own-int8": ran(2)
        }  # fmt: skip
        found = summarised(item("softmax", results))["items"][0]["results"]
        for peer, ratios in {"timm-fp32": (3, 7.5, 15), "ov-bf16": (2, 2, 4), "ov-int8": (3, 1.5, 3)}.items():
            as_fast = found[peer]["summary"]["hydrascope_times_as_fast"]
            self.assertEqual(tuple(as_fast[key]["median"] for key in ("same", "float", "int8")), ratios)
        self.assertNotIn("hydrascope_times_as_fast", found["own-fp32"]["summary"])

    def test_the_best_peers_have_right_outputs(self) -> None:
        results = {
            "timm-fp32": ran(30, error=0), "ov-bf16": ran(8, error=0.5), "ov-int8": ran(6, error=0.1), "own-bf16": ran(1)
        }  # fmt: skip
        found = summarised(item("softmax", results))["items"][0]
        self.assertEqual(found["best_peers"], {"float": "timm-fp32", "int8": "ov-int8"})


class Noisy(unittest.TestCase):
    def summary(self, *rounds: dict[str, Any]) -> dict[str, Any]:
        record = {"rounds": [{"peak_memory_bytes": 1, **each} for each in rounds], "message": ""}
        return summarised(item("softmax", {"timm-fp32": record}))["items"][0]["results"]["timm-fp32"]["summary"]

    def test_rows_name_what_is_above_its_limit(self) -> None:
        quiet = {"ms_p50": 10, "steal_percent": 0.5, "others_percent": 1}
        self.assertEqual(self.summary(quiet, quiet)["noisy"], [])
        self.assertEqual(self.summary(quiet, quiet | {"steal_percent": 5, "ms_p50": 12})["noisy"], ["steal", "spread"])
        self.assertEqual(self.summary(quiet | {"others_percent": 40})["noisy"], ["others"])

    def test_one_round_has_no_spread_and_old_results_no_steal(self) -> None:
        found = self.summary({"ms_p50": 10})
        self.assertEqual((found["spread_percent"], found["steal_percent"], found["noisy"]), (None, None, []))


class Share(unittest.TestCase):
    def percent(self, *shares: float | None) -> float | None:
        record = ran(*[10] * len(shares))
        for turn, share in zip(record["rounds"], shares, strict=True):
            turn["pct_of_peak"] = share
        result = summarised(item("softmax", {"own-fp32": record}))
        cells = table.row(result["items"][0], OWN_FP32)
        found: float | None = result["items"][0]["results"]["own-fp32"]["summary"]["percent_of_rate"]
        shown = cells[table.HEAD.index("share of this processor's product rate %")]
        self.assertEqual(shown, "-" if found is None else f"{found:.0f}")
        return found

    def test_is_the_median_of_the_rounds(self) -> None:
        self.assertEqual(self.percent(60, 80, 70), 70)
        self.assertEqual(self.percent(None, 50), 50)

    def test_says_nothing_above_the_rate_that_was_measured(self) -> None:
        self.assertIsNone(self.percent(120, 130, 70))
        self.assertIsNone(self.percent(None))


class FastestSoftmax(unittest.TestCase):
    def test_of_any_peer_and_precision_serves_every_attention(self) -> None:
        softmax = item("softmax", {"timm-fp32": ran(90), "ov-bf16": ran(40), "own-bf16": ran(1)})
        hedgehog = item("hedgehog", {"own-fp32": ran(20), "own-bf16": ran(10)})
        found = summarised(softmax, hedgehog)["items"][1]["against_fastest_softmax"]
        self.assertEqual(found["peer"], "ov-bf16")
        self.assertEqual(found["times_as_fast"]["own-fp32"]["median"], 2)
        self.assertEqual(found["times_as_fast"]["own-bf16"]["median"], 4)

    def test_must_be_of_the_same_work(self) -> None:
        other = item("softmax", {"timm-fp32": ran(90)}, batch=32)
        found = summarised(other, item("hydra", {"own-fp32": ran(20)}))
        self.assertIsNone(found["items"][1]["against_fastest_softmax"])

    def test_must_be_of_the_same_run(self) -> None:
        softmax = item("softmax", {"timm-fp32": ran(90)})
        hydra = item("hydra", {"own-fp32": ran(20)}) | {"run": {"date": "2026-01-02"}}
        self.assertIsNone(summarised(softmax, hydra)["items"][1]["against_fastest_softmax"])
        found = summarised(softmax | {"run": {"date": "2026-01-02"}}, hydra)["items"][1]["against_fastest_softmax"]
        self.assertEqual(found["times_as_fast"]["own-fp32"]["median"], 4.5)

    def test_must_have_the_right_output(self) -> None:
        softmax = item("softmax", {"timm-fp32": ran(90, error=0), "ov-bf16": ran(4, error=0.5)})
        found = summarised(softmax)["items"][0]["against_fastest_softmax"]
        self.assertEqual(found["peer"], "timm-fp32")

    def test_judges_a_contender_by_its_worst_round(self) -> None:
        rounds = ran(1, error=1e-6)["rounds"] + ran(None)["rounds"] + ran(1, error=0.5)["rounds"]
        self.assertEqual(table.worst_error(rounds), 0.5)
        self.assertIsNone(table.worst_error(ran(1)["rounds"]))


class Markdown(unittest.TestCase):
    def setUp(self) -> None:
        softmax = item(
            "softmax",
            {
                "timm-fp32": ran(120, 130, 125),
                "ov-bf16": ran(None, message="no wheel for this Python"),
                "own-fp32": ran(60, 65, 62.5),
                "own-bf16": ran(5, 5, 5),
            },
        )
        hedgehog = item("hedgehog", {"own-fp32": ran(2.5), "own-bf16": ran(1)})
        self.result = summarised(softmax, hedgehog)
        self.text = table.markdown([self.result], "peers.svg")

    def test_has_times_and_ratios(self) -> None:
        work = "| DeiT-Ti 224x224 b1 softmax |"
        self.assertIn(
            f"{work} **timm fp32** | 125 (121 to 129) | - | - | 6 | 5 | - | - | 2.00 (2.00 to 2.00) | 25.0 (24.2 to 25.8) | - |",
            self.text,
        )
        self.assertIn(f"{work} OpenVINO bf16 | failed | - |", self.text)
        unmeasured = table.markdown([summarised(item("softmax", {"timm-fp32": ran()}))])
        self.assertIn(f"{work} timm fp32 | - | - |", unmeasured)
        self.assertIn("![milliseconds of every contender, a panel per piece of work](peers.svg)", self.text)

    def test_names_the_fastest_softmax(self) -> None:
        self.assertIn("| DeiT-Ti 224x224 b1 hedgehog | timm fp32, 125 ms | 48.0", self.text)

    def test_says_what_failed_and_why(self) -> None:
        self.assertIn(
            "- OpenVINO bf16: no wheel for this Python (DeiT-Ti 224x224 b1 softmax)", self.text
        )

    def test_tables_are_rectangular(self) -> None:
        width = 0
        for line in self.text.splitlines():
            width = 0 if not line.startswith("|") else width or line.count("|")
            self.assertEqual(line.count("|"), width, line)

    def test_result_stays_json(self) -> None:
        self.assertEqual(json.loads(json.dumps(self.result)), self.result)


class Figure(unittest.TestCase):
    def test_rows_that_failed_have_no_dot_and_noisy_ones_are_hollow(self) -> None:
        results = {"timm-fp32": ran(100, 150), "ov-bf16": ran(None), "own-bf16": ran(5, 5)}
        drawn = figure.figure(summarised(item("softmax", results)))
        root = xml.etree.ElementTree.fromstring(drawn)
        dots = root.findall(".//{http://www.w3.org/2000/svg}circle")
        self.assertEqual([dot.get("fill") for dot in dots], ["#fff", figure.OWN])
        self.assertIn("timm fp32, DeiT-Ti 224x224 b1 softmax: 125 (105 to 145) ms", drawn)
