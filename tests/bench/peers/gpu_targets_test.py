"""Tests of gpu_targets.py."""

import unittest
from typing import Any

import gpu_targets as targets
from turns import new_record

Json = dict[str, Any]
LARGE = targets.LARGE


def kernel(name: str, shape: str, share: float, **more: object) -> Json:
    return {
        "kernel": name, "shape": shape, "cache": "cold", "finite": True, "share_of_copy": share,
        "gb_per_s": 4000 * share, "copy_gb_per_s": 4000.0, "us_median": 100.0,
    } | more  # fmt: skip


def model_row(who: str, attention: str, batch: int, rate: float, **more: object) -> Json:
    return {
        "who": who, "setting": who, "attention": attention, "img_size": LARGE, "batch": batch,
        "images_per_second": rate, "ms_p50": 1e3 * batch / max(rate, 1),
        "gflops_per_image": 1390.0,
    } | more  # fmt: skip


def records(key: str, **rounds: list[float | None]) -> Json:
    return {
        who: new_record() | {"rounds": [ms and {key: ms} for ms in times]}
        for who, times in rounds.items()
    }


class Table(unittest.TestCase):
    def verdicts(self, kernels: list[Json], model: Json) -> dict[str, Json]:
        return {
            f"{row['work'].split(',')[0]}: {row['target']}": row
            for row in targets.table(targets.Measured(kernels, model, {}))
        }

    def test_nothing_measured_gives_no_verdict(self) -> None:
        rows = targets.table(targets.Measured([], {}, {}))
        self.assertEqual(len(rows), 10)
        self.assertEqual({row["reached"] for row in rows}, {None})

    def test_kernels_are_judged_cold_and_finite_at_batch_8(self) -> None:
        shape = "B 8, N 8161, D 768"
        name = "hydra forward"
        share = f"{name}: 85 % of the measured copy bandwidth"
        for rows, reached in [
            ([kernel(name, shape, 0.86)], True),
            ([kernel(name, shape, 0.84)], False),
            ([kernel(name, shape, 0.9, cache="warm")], None),
            ([kernel(name, shape, 0.9, finite=False)], None),
            ([kernel(name, "B 1, N 8161, D 768", 0.9)], None),
            ([{"kernel": name, "shape": shape, "type": "bfloat16", "error": "no"}], None),
        ]:
            self.assertIs(self.verdicts(rows, {})[share]["reached"], reached)

    def test_hedgehog_against_the_fastest_backend_of_its_round(self) -> None:
        turns = records(
            "ms_p50", hedgehog=[1.0, 1.0, 1.0, None], flash=[8.0, 8.0, None, 9.0],
            cudnn=[7.0, 5.0, 6.5, 2.0], efficient=[None] * 4,
        )  # fmt: skip
        found = targets.hedgehog(targets.Measured([], {"turns": {"hedgehog": turns}}, {}))
        assert found is not None
        self.assertAlmostEqual(found.ratio, 6.5)
        self.assertIn("cudnn", found.measured)

    def test_models(self) -> None:
        model = {
            "matrix_rate": [{"tflops": 780.0}, {"tflops": 790.0}],
            "rows": [
                model_row("hydrascope", "hydra", 1, 400),
                model_row("hydrascope", "hydra", 8, 460),
                model_row("hydrascope", "hydra", 16, 0, error="out_of_memory"),
                model_row("hydrascope", "softmax", 8, 900),
            ],
            "turns": {
                "hydra": records(
                    "ms_per_image", hydra=[1 / 460, 1 / 460, 1 / 460],
                    hydrascope=[None, 1 / 200, None], timm=[1 / 180, 1 / 170, None],
                ),
                "small": records("ms_per_image", hydrascope=[1 / 990], timm=[1 / 1000]),
            },
            "agreement": {
                "folder": "pictures",
                "settings": [
                    {"device": "cpu", "precision": "float32"},
                    {
                        "device": "cuda", "precision": "bfloat16", "images": 500,
                        "same_top1": 497, "percent_same_top1": 99.4,
                    },
                ],
            },
        }  # fmt: skip
        verdicts = {row["target"]: row for row in targets.table(targets.Measured([], model, {}))}
        matrix = verdicts["80 % of the measured matrix rate"]
        self.assertAlmostEqual(matrix["ratio"], 460 * 1.39 / 785)
        self.assertTrue(matrix["reached"])
        softmax = verdicts["2.4 times the fastest softmax"]
        self.assertAlmostEqual(softmax["ratio"], (460 / 180 + 460 / 200) / 2)
        self.assertTrue(softmax["reached"])
        single = next(row for row in verdicts.values() if "batch 1 latency" in row["work"])
        self.assertAlmostEqual(single["ratio"], 460 / 400)
        self.assertTrue(single["reached"])
        level = next(row for row in verdicts.values() if row["work"].startswith("DeiT-B 224"))
        self.assertTrue(level["reached"])
        self.assertTrue(verdicts["same top-1 on 99 %"]["reached"])
