"""The peers' side, run by measure.py in the virtual environment: one process does one thing.

    worker.py versions KIND                       the versions of what KIND needs
    worker.py prepare KIND FOLDER JOB.json        weights, input and reference, or an exported model
    worker.py measure KIND FOLDER JOB.json        one turn

Prints one JSON object. KIND is timm, onnxruntime or openvino. JOB is the work item, the number of
threads and how long to measure. timm prepares first: its random weights and its float32 output are
what the others are made of and compared with.
"""

import importlib.metadata
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

Job = dict[str, Any]
PACKAGES = {
    "timm": ("torch", "torchvision", "timm"),
    "onnxruntime": ("torch", "timm", "onnx", "onnxruntime"),
    "openvino": ("torch", "timm", "openvino"),
}
WEIGHTS, INPUT, REFERENCE = "weights.pt", "input.npy", "reference.npy"
ONNX_FILE, OPENVINO_FILE = "model.onnx", "model.xml"


def make_model(job: Job, *, exportable: bool = False) -> Any:
    """timm's model without values; `exportable` is timm's word for operations that ONNX has."""
    import timm
    import torch

    class HydraAttention(torch.nn.Module):
        """The plain formula: q and k of unit length over D, y = q * sum over tokens of k * v."""

        def __init__(self, softmax: Any) -> None:
            super().__init__()
            self.qkv = softmax.qkv
            self.proj = softmax.proj

        def forward(self, x: Any, **_: Any) -> Any:
            q, k, v = self.qkv(x).chunk(3, dim=-1)
            q = torch.nn.functional.normalize(q, dim=-1)
            k = torch.nn.functional.normalize(k, dim=-1)
            return self.proj(q * (k * v).sum(dim=1, keepdim=True))

    model = timm.create_model(job["arch"], img_size=tuple(job["img_size"]), exportable=exportable)
    if job["attention"] == "hydra":
        for block in model.blocks:
            block.attn = HydraAttention(block.attn)
    elif job["attention"] != "softmax":
        raise ValueError(f"no peer computes {job['attention']}")
    return model.eval()


def load_model(job: Job, folder: Path, *, exportable: bool = False) -> Any:
    import torch

    with torch.device("meta"):  # initialising would take longer than loading
        model = make_model(job, exportable=exportable)
    model.load_state_dict(torch.load(folder / WEIGHTS, weights_only=True), assign=True)
    return model.requires_grad_(False)


def load_input(folder: Path) -> Any:
    import numpy as np

    return np.load(folder / INPUT)


def prepare_timm(job: Job, folder: Path) -> None:
    import numpy as np
    import torch

    torch.manual_seed(0)
    model = make_model(job)
    images = torch.randn(job["batch"], 3, *job["img_size"])
    torch.save(model.state_dict(), folder / WEIGHTS)
    np.save(folder / INPUT, images.numpy())
    with torch.inference_mode():
        np.save(folder / REFERENCE, model(images).numpy())


def prepare_onnxruntime(job: Job, folder: Path) -> None:
    import torch

    model = load_model(job, folder, exportable=True)
    torch.onnx.export(
        model,
        (torch.from_numpy(load_input(folder)),),
        str(folder / ONNX_FILE),
        input_names=["images"],
        output_names=["logits"],
        opset_version=18,
        dynamo=False,  # the other exporter needs a further package
    )


def prepare_openvino(job: Job, folder: Path) -> None:
    import openvino
    import torch

    images = torch.from_numpy(load_input(folder))
    model = openvino.convert_model(
        load_model(job, folder), example_input=images, input=list(images.shape)
    )
    openvino.save_model(model, folder / OPENVINO_FILE, compress_to_fp16=False)


# What follows returns a function that computes the logits of the prepared input once.
Pass = Callable[[], Any]


def open_timm(job: Job, folder: Path) -> Pass:
    import torch

    torch.set_num_threads(job["threads"])
    dtype = getattr(torch, job["precision"])
    model = load_model(job, folder).to(dtype)
    images = torch.from_numpy(load_input(folder))

    def once() -> Any:
        with torch.inference_mode():
            return model(images.to(dtype)).float().numpy()

    return once


def open_onnxruntime(job: Job, folder: Path) -> Pass:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = job["threads"]
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        str(folder / ONNX_FILE), options, providers=["CPUExecutionProvider"]
    )
    feed = {session.get_inputs()[0].name: load_input(folder)}
    return lambda: session.run(None, feed)[0]


def open_openvino(job: Job, folder: Path) -> Pass:
    import openvino

    wanted = {"float32": "f32", "bfloat16": "bf16"}[job["precision"]]
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": job["threads"],
        "INFERENCE_PRECISION_HINT": wanted,
    }
    compiled = openvino.Core().compile_model(str(folder / OPENVINO_FILE), "CPU", settings)
    chosen = compiled.get_property("INFERENCE_PRECISION_HINT").to_string()
    if chosen != wanted:
        raise RuntimeError(f"OpenVINO computes {chosen} on this processor when asked for {wanted}")
    images = load_input(folder)
    request = compiled.create_infer_request()
    return lambda: request.infer({0: images}, share_inputs=True, share_outputs=True)[0]


PREPARE = {
    "timm": prepare_timm,
    "onnxruntime": prepare_onnxruntime,
    "openvino": prepare_openvino,
}
OPEN = {"timm": open_timm, "onnxruntime": open_onnxruntime, "openvino": open_openvino}


def settled(samples: list[float], window: int = 3) -> bool:
    """The rule of `hydrascope benchmark`: the last two medians of three are within 2 %."""
    if len(samples) < 2 * window:
        return False
    before = statistics.median(samples[-2 * window : -window])
    return abs(statistics.median(samples[-window:]) - before) <= 0.02 * before


def clear_peak_memory() -> None:
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        pass  # The peak then includes loading.


def peak_memory_bytes() -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def relative_error(logits: Any, folder: Path) -> float:
    """The distance to timm's float32 logits over their length."""
    import numpy as np

    reference = np.load(folder / REFERENCE).astype(np.float64)
    error = np.linalg.norm(logits.astype(np.float64) - reference) / np.linalg.norm(reference)
    if not np.isfinite(error):
        raise RuntimeError("the logits are not finite")
    return float(error)


def measure(once: Pass, job: Job, folder: Path) -> dict[str, Any]:
    """Warms up and measures as `hydrascope benchmark` does with the same options."""
    logits = None

    def timed() -> float:
        nonlocal logits
        begin = time.perf_counter()
        logits = once()
        return (time.perf_counter() - begin) * 1e3

    before: list[float] = []
    begin = time.perf_counter()
    while True:
        if job["warmup"] is not None:
            if len(before) >= job["warmup"]:
                break
        elif settled(before) or len(before) >= 20:
            break
        elif before and time.perf_counter() - begin > 10:
            break
        before.append(timed())
    clear_peak_memory()
    samples: list[float] = []
    begin = time.perf_counter()
    while True:
        if job["iters"] is not None:
            if len(samples) >= job["iters"]:
                break
        elif len(samples) >= 5 and time.perf_counter() - begin >= job["duration"]:
            break
        samples.append(timed())
    peak = peak_memory_bytes()
    return {
        "ms_p50": statistics.median(samples),
        "ms_mean": statistics.fmean(samples),
        "iterations": len(samples),
        "warmup": len(before),
        "peak_memory_bytes": peak,
        "relative_error": relative_error(logits, folder),
    }


def main() -> None:
    warnings.simplefilter("ignore")  # what the tracers say about shapes
    action, kind = sys.argv[1:3]
    if action == "versions":
        print(json.dumps({name: importlib.metadata.version(name) for name in PACKAGES[kind]}))
        return
    folder = Path(sys.argv[3])
    job: Job = json.loads(sys.argv[4])
    if action == "prepare":
        PREPARE[kind](job, folder)
        print("{}")
    else:
        print(json.dumps(measure(OPEN[kind](job, folder), job, folder)))


if __name__ == "__main__":
    main()
