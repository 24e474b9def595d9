"""PyTorch on a GPU: timm's ViT, one pass of it, and single kernels."""

import contextlib
import importlib.metadata
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._dynamo
from cpu_peers import Job, Pass, make_model
from timing import Json, settled, summary
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}
HEADS, HEAD_DIM = 12, 64
NO_GPU = "torch sees no GPU"
clear_peak, peak = torch.cuda.reset_peak_memory_stats, torch.cuda.max_memory_allocated


def sdpa_by(backend: str | None) -> Any:
    """Within it, scaled_dot_product_attention is computed by the backend, or by PyTorch's choice."""
    return sdpa_kernel([BACKENDS[backend]] if backend else list(BACKENDS.values()))


models: dict[tuple[Any, ...], Any] = {}
# All models share one forward function, whose recompilations are counted; above the limit it would run eagerly, in silence.
torch._dynamo.config.recompile_limit = 1000
torch._dynamo.config.fail_on_recompile_limit_hit = True


def model_on_gpu(job: Job) -> Any:
    """As it is or compiled; kept for the next turn."""
    plain = (tuple(job["img_size"]), job["attention"])
    if plain not in models:
        torch.manual_seed(0)
        models[plain] = make_model(job).requires_grad_(False).to("cuda", torch.bfloat16)
    if not job.get("compile"):
        return models[plain]
    # A backend is fixed while tracing, and shapes are, so each is a model of its own.
    key = (*plain, job["batch"], job.get("backend"), job["compile"])
    if key not in models:
        models[key] = torch.compile(models[plain], mode=job["compile"], dynamic=False)
    return models[key]


@contextlib.contextmanager
def open_on_gpu(job: Job) -> Iterator[Pass]:
    """bfloat16, each pass waited for and its output checked; the first one, which may compile for
    a minute, is over before it is handed out."""
    model = model_on_gpu(job)
    images = torch.randn(job["batch"], 3, *job["img_size"], device="cuda", dtype=torch.bfloat16)

    def once() -> None:
        if not model(images).isfinite().all().item():
            raise RuntimeError("the logits are not finite")

    with torch.inference_mode(), sdpa_by(job.get("backend")):
        once()
        yield once


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


def measure_kernel(call: Callable[[], Any], flops: float) -> Json:
    """30 launches, after the medians of ten have settled."""
    before: list[float] = []
    begin = time.perf_counter()
    while not settled(before, 10) and time.perf_counter() - begin < 10:
        before += event_times(call, 10)
    result = summary(event_times(call, 30))
    return result | {"tflops": flops / result["ms_p50"] / 1e9}


def matrix_rate(job: Job) -> Json:
    """The matrices are random and square: zeros run faster."""
    side = job["side"]
    a, b = (torch.randn(side, side, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return measure_kernel(lambda: a @ b, 2 * side**3)


def sdpa(job: Job) -> Json:
    batch, tokens = job["batch"], job["tokens"]
    shape = (batch, tokens, 3, HEADS, HEAD_DIM)
    qkv = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)

    def call() -> Any:
        return functional.scaled_dot_product_attention(q, k, v)

    with torch.inference_mode(), sdpa_by(job["backend"]):
        if not call().isfinite().all().item():
            raise RuntimeError("the output is not finite")
        return measure_kernel(call, 4 * batch * HEADS * HEAD_DIM * tokens**2)


def describe(_: Job) -> Json:
    if not torch.cuda.is_available():
        return {"error": NO_GPU}
    versions = {"torch": torch.__version__, "cuda": torch.version.cuda or "none"}
    versions["cudnn"] = str(torch.backends.cudnn.version())
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        versions["timm"] = importlib.metadata.version("timm")
    return {"versions": versions, "gpu": torch.cuda.get_device_name(0)}
