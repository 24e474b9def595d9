"""The table of targets: what was measured beside what the GPU path must reach. All of them are
ratios to something that the same run measured."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from turns import by_round, median

Json = dict[str, Any]

LARGE = [1088, 1920]
KERNEL_SHARE = 0.85
HEDGEHOG_TIMES = 6.0
MATRIX_SHARE = 0.80
SOFTMAX_TIMES = 2.4
BATCH_ONE = 1.25
CONVERSION_MINUTES = 5.0
LEVEL = 0.98  # "level": within the spread of two runs
SAME_TOP1 = 99.0


@dataclass(frozen=True)
class Found:
    ratio: float
    measured: str


@dataclass(frozen=True)
class Measured:
    """What the stages of a run left."""

    kernels: list[Json]
    model: Json
    conversion: Json


def good(rows: list[Json], who: str, attention: str, img_size: list[int]) -> list[Json]:
    return [
        row
        for row in rows
        if row["who"] == who
        and row["attention"] == attention
        and row["img_size"] == img_size
        and not row.get("error")
    ]


def fastest(rows: list[Json]) -> Json | None:
    return max(rows, key=lambda row: row["images_per_second"], default=None)


def turn(row: Json) -> Json:
    """Of a row, for turns.py."""
    return {"ms_p50": row["ms_p50"], "ms_per_image": 1e3 / row["images_per_second"]}


def kernel_share(name: str, shape: str, found: Measured) -> Found | None:
    for row in found.kernels:
        if (
            row["kernel"] == name
            and row["shape"].startswith(shape)
            and row.get("cache") == "cold"
            and row["finite"]
        ):
            rates = f"{row['gb_per_s']:.0f} of {row['copy_gb_per_s']:.0f} GB/s"
            return Found(row["share_of_copy"], f"{rates} ({row['us_median']:.1f} us)")
    return None


def times_as_fast(records: Json, own: str, key: str) -> tuple[float, float, float, str] | None:
    """Within a round, against the fastest of the others: the median ratio, both sides' median
    milliseconds, and who the fastest were."""
    others = {who: by_round(record, key) for who, record in records.items() if who != own}
    rounds = []
    for index, ours in enumerate(by_round(records.get(own), key)):
        theirs = {who: times[index] for who, times in others.items() if times[index] is not None}
        if ours is not None and theirs:
            who = min(theirs, key=lambda each: theirs[each])
            rounds.append((theirs[who] / ours, ours, theirs[who], who))
    if not rounds:
        return None
    ratio, ours, theirs = (median([each[i] for each in rounds]) for i in range(3))
    return ratio, ours, theirs, "/".join(sorted({each[3] for each in rounds}))


def hedgehog(found: Measured) -> Found | None:
    records = found.model.get("turns", {}).get("hedgehog", {})
    fast = times_as_fast(records, "hedgehog", "ms_p50")
    if fast is None:
        return None
    ratio, ours, theirs, who = fast
    return Found(ratio, f"{ours:.3f} ms against {theirs:.2f} ms ({who})")


def model_in_turns(work: str, own: str, found: Measured) -> Found | None:
    fast = times_as_fast(found.model.get("turns", {}).get(work, {}), own, "ms_per_image")
    if fast is None:
        return None
    ratio, ours, theirs, who = fast
    return Found(ratio, f"{1e3 / ours:.0f} against {1e3 / theirs:.0f} images/s ({who})")


def hydra_rows(found: Measured) -> list[Json]:
    return good(found.model.get("rows", []), "hydrascope", "hydra", LARGE)


def matrix_share(found: Measured) -> Found | None:
    rates = [each["tflops"] for each in found.model.get("matrix_rate", [])]
    row = fastest(hydra_rows(found))
    if not rates or row is None:
        return None
    achieved = row["images_per_second"] * row["gflops_per_image"] / 1e3
    return Found(
        achieved / median(rates),
        f"{achieved:.0f} of {median(rates):.0f} TFLOP/s, {row['images_per_second']:.0f} images/s "
        f"at batch {row['batch']}",
    )


def batch_one(found: Measured) -> Found | None:
    rows = hydra_rows(found)
    single = [row["ms_p50"] for row in rows if row["batch"] == 1]
    best = fastest(rows)
    if not single or best is None:
        return None
    per_image, latency = 1e3 / best["images_per_second"], median(single)
    return Found(
        latency / per_image,
        f"{latency:.2f} ms against {per_image:.2f} ms per image at batch {best['batch']}",
    )


def same_top1(found: Measured) -> Found | None:
    agreement = found.model.get("agreement", {})
    for entry in agreement.get("settings", []):
        if (entry["device"], entry["precision"]) == ("cuda", "bfloat16"):
            return Found(
                entry["percent_same_top1"],
                f"{entry['same_top1']} of {entry['images']} pictures of {agreement['folder']}",
            )
    return None


def conversion_minutes(found: Measured) -> Found | None:
    report = found.conversion
    if "minutes" not in report:
        return None
    return Found(
        report["minutes"],
        f"{report['stages'][-1]['images_per_second']:.0f} images/s, same top-1 as the softmax "
        f"model on {report['agreement']:.1f} % of {report['held_out_images']} pictures",
    )


def table(found: Measured) -> list[Json]:
    """One object a target: work, target, ratio and `measured` in words (null: not measured) and
    `reached` (null then)."""
    Ask = Callable[[Measured], Found | None]
    at_least, at_most = (lambda a, b: a >= b), (lambda a, b: a <= b)
    of_copy = (f"{100 * KERNEL_SHARE:.0f} % of the measured copy bandwidth", at_least, KERNEL_SHARE)
    best_hydra = "DeiT-B 1088x1920 Hydra, bf16, best batch"
    targets: list[tuple[str, Ask, str, Callable[[float, float], bool], float]] = [
        ("hydra forward, DeiT-B 1088x1920, bf16, batch 8",
         lambda found: kernel_share("hydra forward", "B 8,", found), *of_copy),
        ("layer_norm, the same rows",
         lambda found: kernel_share("layer_norm", "rows 8 x 8161", found), *of_copy),
        ("patchify, 8 x 1088x1920 pixels",
         lambda found: kernel_share("patchify", "B 8,", found), *of_copy),
        ("hedgehog, 12 heads, d 64, 32768 tokens, batch 1", hedgehog,
         f"{HEDGEHOG_TIMES:g} times the fastest fused softmax", at_least, HEDGEHOG_TIMES),
        (best_hydra, matrix_share,
         f"{100 * MATRIX_SHARE:.0f} % of the measured matrix rate", at_least, MATRIX_SHARE),
        (best_hydra, lambda found: model_in_turns("hydra", "hydra", found),
         f"{SOFTMAX_TIMES:g} times the fastest softmax", at_least, SOFTMAX_TIMES),
        ("DeiT-B 1088x1920 Hydra, batch 1 latency", batch_one,
         f"at most {BATCH_ONE:g} times the time of an image at the best batch", at_most, BATCH_ONE),
        ("DeiT-B 224 softmax, batch 256",
         lambda found: model_in_turns("small", "hydrascope", found),
         f"level with timm and torch.compile (at least {LEVEL:g})", at_least, LEVEL),
        ("logits CUDA bf16 against CPU fp32", same_top1,
         f"same top-1 on {SAME_TOP1:g} %", at_least, SAME_TOP1),
        ("DeiT-Tiny becomes Hedgehog (convert)", conversion_minutes,
         f"at most {CONVERSION_MINUTES:g} minutes", at_most, CONVERSION_MINUTES),
    ]  # fmt: skip
    rows = []
    for work, ask, words, reaches, bound in targets:
        answer = ask(found)
        rows.append(
            {
                "work": work,
                "target": words,
                "measured": answer and answer.measured,
                "ratio": answer and answer.ratio,
                "reached": None if answer is None else reaches(answer.ratio, bound),
            }
        )
    return rows
