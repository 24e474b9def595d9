"""The expectations of the GPU path, beside the measurements of a run. All targets are ratios to
something that the same run measured; docs/gpu.md says where the expected images/s come from."""

import re
from collections.abc import Callable
from typing import Any

from turns import by_round, median

Json = dict[str, Any]

LARGE = [1088, 1920]
# Images/s of DeiT-B in bfloat16 by card, by arithmetic: hydrascope, and peers that it must be ahead of.
EXPECTED_LARGE = {"H100": 374, "H200": 396}
EXPECTED_SMALL = {"H100": 13000, "H200": 13700}
COMPILED_HYDRA = {"H100": 280, "H200": 310}
FLASH_ATTENTION_3 = {"H100": 145, "H200": 145}
COMPILED_SMALL = {"H100": 12000, "H200": 12600}

Found = tuple[float, str]  # the ratio, and in words


def good(rows: list[Json], who: str, attention: str, img_size: list[int]) -> list[Json]:
    asked = {"who": who, "attention": attention, "img_size": img_size}
    return [row for row in rows if asked.items() <= row.items() and not row.get("error")]


def fastest(rows: list[Json]) -> Json | None:
    return max(rows, key=lambda row: row["images_per_second"], default=None)


def turn(row: Json) -> Json:
    """The times of a row, for turns.py."""
    return {"ms_p50": row["ms_p50"], "ms_per_image": 1e3 / row["images_per_second"]}


def kernel_share(rows: list[Json], name: str, shape: str) -> Found | None:
    for row in rows:
        wanted = row["kernel"] == name and row["shape"].startswith(shape)
        if wanted and row.get("cache") == "cold" and row["finite"]:
            rates = f"{row['gb_per_s']:.0f} of {row['copy_gb_per_s']:.0f} GB/s"
            return row["share_of_copy"], f"{rates} ({row['us_median']:.1f} us)"
    return None


def times_as_fast(
    records: Json, own: str, key: str, kind: str = ""
) -> tuple[float, float, float, str] | None:
    """Within a round, against the fastest of the others whose name has `kind` in it: the median
    ratio, both sides' median milliseconds, and who the fastest were."""
    others = {
        who: by_round(record, key) for who, record in records.items() if who != own and kind in who
    }
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


def hedgehog(model: Json) -> Found | None:
    fast = times_as_fast(model.get("turns", {}).get("hedgehog", {}), "hedgehog", "ms_p50")
    return fast and (fast[0], f"{fast[1]:.3f} ms against {fast[2]:.2f} ms ({fast[3]})")


def in_turns(model: Json, work: str, own: str, kind: str = "") -> Found | None:
    fast = times_as_fast(model.get("turns", {}).get(work, {}), own, "ms_per_image", kind)
    return fast and (
        fast[0], f"{1e3 / fast[1]:.0f} against {1e3 / fast[2]:.0f} images/s ({fast[3]})"
    )  # fmt: skip


def hydra_rows(model: Json) -> list[Json]:
    return good(model.get("rows", []), "hydrascope", "hydra", LARGE)


def matrix_share(model: Json) -> Found | None:
    rates = [each["tflops"] for each in model.get("matrix_rate", [])]
    row = fastest(hydra_rows(model))
    if not rates or row is None:
        return None
    achieved = row["images_per_second"] * row["gflops_per_image"] / 1e3
    words = f"{achieved:.0f} of {median(rates):.0f} TFLOP/s at batch {row['batch']}"
    return achieved / median(rates), words


def batch_one(model: Json) -> Found | None:
    rows = hydra_rows(model)
    single = [row["ms_p50"] for row in rows if row["batch"] == 1]
    best = fastest(rows)
    if not single or best is None:
        return None
    latency, per_image = median(single), 1e3 / best["images_per_second"]
    words = f"{latency:.2f} ms against {per_image:.2f} ms an image at batch {best['batch']}"
    return latency / per_image, words


def same_top1(model: Json) -> Found | None:
    for each in model.get("agreement", {}).get("settings", []):
        if (each["device"], each["precision"]) == ("cuda", "bfloat16"):
            return each["percent_same_top1"], f"{each['same_top1']} of {each['images']} pictures"
    return None


def ahead_of_all(model: Json) -> Found | None:
    """Hydra at its best batch beside the fastest peer of any kind, batch and mode."""
    rows = model.get("rows", [])
    ours = fastest(hydra_rows(model))
    peers = [good(rows, "torch", attention, LARGE) for attention in ("hydra", "softmax")]
    theirs = fastest(sum(peers, []))
    kinds = {(row["attention"], row["batch"], row["setting"]) for row in sum(peers, [])}
    # Eager rows alone say nothing of compiled ones.
    if ours is None or theirs is None or not any("torch.compile" in kind[2] for kind in kinds):
        return None
    rates = [row["images_per_second"] for row in (ours, theirs)]
    who = f"{theirs['setting']}, batch {theirs['batch']}, the fastest of {len(kinds)}"
    return rates[0] / rates[1], f"{rates[0]:.0f} against {rates[1]:.0f} images/s ({who})"


def beside(model: Json, by_card: dict[str, int], attention: str, img_size: list[int]) -> Found | None:
    """Best images/s beside a number of this card."""
    row = fastest(good(model.get("rows", []), "hydrascope", attention, img_size))
    gpu = model["header"].get("gpu", "")
    # Numbers are of SXM modules; PCIe and NVL cards are slower.
    card = next((each for each in by_card if each in gpu and not re.search("PCIe|NVL", gpu)), None)
    if row is None or card is None:
        return None
    found, wanted = row["images_per_second"], by_card[card]
    return found / wanted, f"{found:.0f} beside {wanted} images/s"


def table(kernels: list[Json], model: Json) -> list[Json]:
    """One object a target: work, target, ratio and `measured` in words (null: not measured) and
    `reached` (null then). Targets of what a command does not measure at all are left out."""
    Target = tuple[str, str, float, Callable[[], Found | None]]
    of_copy = "85 % of the measured copy bandwidth"
    hydra, small = "DeiT-B 1088x1920 Hydra", "DeiT-B 224 softmax, batch 256"
    of_kernels: list[Target] = [
        ("hydra forward, DeiT-B 1088x1920, bf16, batch 8", of_copy, 0.85,
         lambda: kernel_share(kernels, "hydra forward", "B 8, N 8161")),
        ("layer_norm, the same rows", of_copy, 0.85,
         lambda: kernel_share(kernels, "layer_norm", "rows 8 x 8161")),
        ("patchify, 8 x 1088x1920 pixels", of_copy, 0.85,
         lambda: kernel_share(kernels, "patchify", "B 8,")),
    ]  # fmt: skip
    of_model: list[Target] = [
        (hydra, "ahead of every peer", 1.0, lambda: in_turns(model, "hydra", "hydrascope hydra")),
        (hydra, "2.4 times the fastest softmax", 2.4,
         lambda: in_turns(model, "hydra", "hydrascope hydra", "softmax")),
        (hydra, "ahead of every peer, whatever its batch and mode", 1.0, lambda: ahead_of_all(model)),
        (hydra, "above 280 (H100), 310 (H200): PyTorch's compiled Hydra", 1.0,
         lambda: beside(model, COMPILED_HYDRA, "hydra", LARGE)),
        (hydra, "above 145: softmax by FlashAttention-3", 1.0,
         lambda: beside(model, FLASH_ATTENTION_3, "hydra", LARGE)),
        (hydra, "what is expected", 0.95, lambda: beside(model, EXPECTED_LARGE, "hydra", LARGE)),
        (hydra, "80 % of the measured matrix rate", 0.80, lambda: matrix_share(model)),
        (hydra, "batch 1: at most 1.25 times an image of the best batch", -1.25,
         lambda: batch_one(model)),
        (small, "level with timm and torch.compile (at least 0.98)", 0.98,
         lambda: in_turns(model, "small", "hydrascope")),
        (small, "above 12,000 (H100), 12,600 (H200): torch.compile", 1.0,
         lambda: beside(model, COMPILED_SMALL, "softmax", [224, 224])),
        (small, "what is expected", 0.95,
         lambda: beside(model, EXPECTED_SMALL, "softmax", [224, 224])),
        ("hedgehog, 12 heads, d 64, 32768 tokens, batch 1", "6 times the fastest softmax", 6.0,
         lambda: hedgehog(model)),
        ("logits CUDA bf16 against CPU fp32", "same top-1 on 99 %", 99.0,
         lambda: same_top1(model)),
    ]  # fmt: skip
    rows = []
    for work, words, bound, ask in (of_kernels if kernels else []) + (of_model if model else []):
        ratio, measured = ask() or (None, None)
        # A bound below zero is one that must not be exceeded.
        reached = ratio and (ratio >= bound if bound > 0 else ratio <= -bound)
        rows.append({
            "work": work, "target": words, "measured": measured, "ratio": ratio, "reached": reached
        })  # fmt: skip
    return rows
