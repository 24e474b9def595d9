"""PyTorch's side of measure.py: lives through a whole run, so that what it compiled stays compiled,
and is idle while hydrascope is measured.

Reads one JSON object a line ({"do": ACTION, ...}) and answers with one a line: what was measured,
or {"error": why not}. Actions: hello, matrix_rate, sdpa, vit.
"""

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Json = dict[str, Any]

import torch  # noqa: E402  (takes seconds; nothing above needs it)
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}
HEADS, HEAD_DIM = 12, 64


def percentile(values: list[float], percent: float) -> float:
    ordered = sorted(values)
    at = (len(ordered) - 1) * percent / 100
    low, part = int(at), at % 1
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * part


def spread(values: list[float]) -> Json:
    return {
        "ms_median": percentile(values, 50),
        "ms_p10": percentile(values, 10),
        "ms_p90": percentile(values, 90),
        "iterations": len(values),
    }


def settled(window: Callable[[], list[float]], most_seconds: float = 10) -> None:
    """Until the medians of two windows differ by less than 2 %."""
    begin, before = time.perf_counter(), 0.0
    while time.perf_counter() - begin < most_seconds:
        now = statistics.median(window())
        if abs(now - before) <= 0.02 * now:
            return
        before = now


def event_times(call: Callable[[], Any], count: int) -> list[float]:
    """Milliseconds by CUDA events, the caches cold: a buffer larger than L2 is written before."""
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    flushed = torch.empty(max(2 * l2, 1 << 25), dtype=torch.uint8, device="cuda")
    pairs = []
    for _ in range(count):
        flushed.fill_(1)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        pairs.append((begin, end))
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) for begin, end in pairs]


def hello(_: Json) -> Json:
    if not torch.cuda.is_available():
        return {"error": "torch sees no GPU"}
    try:
        import timm

        versions = {"timm": timm.__version__}
    except ImportError:
        versions = {}
    versions |= {"torch": torch.__version__, "cuda": torch.version.cuda or "none"}
    versions["cudnn"] = str(torch.backends.cudnn.version())
    return {"versions": versions, "gpu": torch.cuda.get_device_name(0)}


def matrix_rate(job: Json) -> Json:
    """TFLOP/s of a bf16 product of random square matrices: zeros run faster."""
    side = job["side"]
    a, b = (torch.randn(side, side, device="cuda", dtype=torch.bfloat16) for _ in range(2))

    def window() -> list[float]:
        return event_times(lambda: a @ b, 10)

    settled(window)
    result = spread(event_times(lambda: a @ b, 30))
    return result | {"tflops": 2 * side**3 / result["ms_median"] / 1e9}


def sdpa(job: Json) -> Json:
    batch, tokens = job["batch"], job["tokens"]
    qkv = torch.randn(
        batch, tokens, 3, HEADS, HEAD_DIM, device="cuda", dtype=torch.bfloat16
    ).permute(2, 0, 3, 1, 4)
    q, k, v = qkv.unbind(0)

    def call() -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    with torch.inference_mode(), sdpa_kernel(BACKENDS[job["backend"]]):
        if not call().isfinite().all().item():
            return {"error": "the output is not finite"}
        settled(lambda: event_times(call, 10))
        result = spread(event_times(call, job.get("launches", 30)))
    return result | {"tflops": 4 * batch * HEADS * HEAD_DIM * tokens**2 / result["ms_median"] / 1e9}


models: dict[tuple[Any, ...], Any] = {}


def make_model(img_size: tuple[int, int]) -> Any:
    try:
        import timm
    except ImportError:
        sys.path.insert(0, str(Path(__file__).resolve().parent))
        from plain_vit import PlainViT

        return PlainViT(img_size)
    return timm.create_model("deit_base_patch16_224", img_size=img_size)


def model_of(job: Json) -> Any:
    """The model, as it is or compiled; kept for the next turn."""
    img_size = (job["img_size"][0], job["img_size"][1])
    plain = (img_size,)
    if plain not in models:
        torch.manual_seed(0)
        model = make_model(img_size).eval().requires_grad_(False)
        models[plain] = model.to("cuda", torch.bfloat16)
    if not job.get("compile"):
        return models[plain]
    # A backend is fixed while tracing, and shapes are, so each is a model of its own.
    key = (img_size, job["batch"], job["backend"], job["compile"])
    if key not in models:
        models[key] = torch.compile(models[plain], mode=job["compile"], dynamic=False)
    return models[key]


def vit(job: Json) -> Json:
    """Tensor in, logits out, each pass waited for and its output checked, by the clock: the rules
    of `hydrascope benchmark`."""
    torch.cuda.reset_peak_memory_stats()
    begin = time.perf_counter()
    model = model_of(job)
    images = torch.randn(job["batch"], 3, *job["img_size"], device="cuda", dtype=torch.bfloat16)
    backends = [BACKENDS[job["backend"]]] if job.get("backend") else list(BACKENDS.values())

    def once() -> float:
        start = time.perf_counter()
        if not model(images).isfinite().all().item():
            raise RuntimeError("the logits are not finite")
        return 1e3 * (time.perf_counter() - start)

    with torch.inference_mode(), sdpa_kernel(backends):
        once()
        prepared = time.perf_counter() - begin
        settled(lambda: [once() for _ in range(3)])
        times: list[float] = []
        begin = time.perf_counter()
        while len(times) < 5 or time.perf_counter() - begin < job["duration"]:
            times.append(once())
    result = spread(times)
    return result | {
        "images_per_second": 1e3 * job["batch"] / result["ms_median"],
        "prepare_seconds": prepared,
        "peak_memory_bytes": torch.cuda.max_memory_allocated(),
    }


ACTIONS: dict[str, Callable[[Json], Json]] = {
    "hello": hello,
    "matrix_rate": matrix_rate,
    "sdpa": sdpa,
    "vit": vit,
}


def answer(job: Json) -> Json:
    try:
        return ACTIONS[job["do"]](job)
    except torch.cuda.OutOfMemoryError:
        models.clear()
        return {"error": "out of memory"}
    except Exception as error:  # a backend that refuses is a result, not the end of the run
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return {"error": f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]}
    finally:
        torch.cuda.empty_cache()  # hydrascope is next


def main() -> int:
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no reply
    for line in sys.stdin:
        replies.write(json.dumps(answer(json.loads(line))) + "\n")
        replies.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
