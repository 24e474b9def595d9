"""timm, torch.compile, ONNX Runtime and OpenVINO on the CPU: what they need, and one pass of each.
Every function imports what it needs: what a turn does not need is not in its memory."""

import contextlib
import ctypes
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import plain_vit

Job = dict[str, Any]
PACKAGES = {
    "timm": ("torch", "torchvision", "timm"),
    "torch-compile": ("torch", "timm"),
    "onnxruntime": ("torch", "timm", "onnx", "onnxruntime"),
    "onnxruntime-dynamic": ("torch", "timm", "onnx", "onnxruntime"),
    "openvino": ("torch", "timm", "openvino"),
    "openvino-nncf": ("torch", "timm", "openvino", "nncf"),
}
WEIGHTS, INPUT, REFERENCE = "weights.pt", "input.npy", "reference.npy"
ONNX_FILE, OPENVINO_FILE = "model.onnx", "model.xml"
ONNX_INT8_FILE, OPENVINO_INT8_FILE = "int8.onnx", "int8.xml"
CALIBRATION_BATCHES = 4
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h


def make_model(job: Job, *, exportable: bool = False) -> Any:
    """timm's model, or the same written out; `exportable` is timm's word for operations that ONNX has."""
    import torch

    try:
        import timm
    except ImportError:
        timm = None

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

    size = tuple(job["img_size"])
    if timm is None:
        model = plain_vit.create_model(job["arch"], size)
    else:
        model = timm.create_model(job["arch"], img_size=size, exportable=exportable)
    if job["attention"] == "hydra":
        for block in model.blocks:
            block.attn = HydraAttention(block.attn)
    elif job["attention"] != "softmax":
        raise ValueError(f"no peer computes {job['attention']}")
    return model.eval()


def load_model(job: Job, *, exportable: bool = False) -> Any:
    import torch

    with torch.device("meta"):  # initialising would take longer than loading
        model = make_model(job, exportable=exportable)
    weights = torch.load(Path(job["folder"]) / WEIGHTS, weights_only=True)
    model.load_state_dict(weights, assign=True)
    return model.requires_grad_(False)


def load_array(job: Job, name: str) -> Any:
    import numpy as np

    return np.load(Path(job["folder"]) / name)


def prepare_timm(job: Job) -> None:
    import numpy as np
    import torch

    torch.manual_seed(0)
    folder, model = Path(job["folder"]), make_model(job)
    images = torch.randn(job["batch"], 3, *job["img_size"])
    torch.save(model.state_dict(), folder / WEIGHTS)
    np.save(folder / INPUT, images.numpy())
    with torch.inference_mode():
        np.save(folder / REFERENCE, model(images).numpy())


def prepare_onnxruntime(job: Job) -> None:
    import torch

    model = load_model(job, exportable=True)
    torch.onnx.export(
        model,
        (torch.from_numpy(load_array(job, INPUT)),),
        str(Path(job["folder"]) / ONNX_FILE),
        input_names=["images"],
        output_names=["logits"],
        opset_version=18,
        dynamo=False,  # the other exporter needs a further package
    )


def report_nothing() -> None:
    """OpenVINO's converter and NNCF report to their makers how they are used, but not where the variable is set."""
    os.environ["CI"] = "true"


def prepare_openvino(job: Job) -> None:
    report_nothing()
    import openvino
    import torch

    images = torch.from_numpy(load_array(job, INPUT))
    model = openvino.convert_model(load_model(job), example_input=images, input=list(images.shape))
    openvino.save_model(model, Path(job["folder"]) / OPENVINO_FILE, compress_to_fp16=False)


def prepare_onnxruntime_dynamic(job: Job) -> None:
    """Dynamic quantisation, which ONNX Runtime's documentation recommends for transformers (static for convolutional
    networks: onnxruntime.ai, "Quantize ONNX models"). Products with weights become products of bytes, with a scale for
    every column; the convolution of the patches stays in float32, because ConvInteger takes no signed weights. The symbolic
    inference of shapes is left out: it does not know ReduceL2, Hydra's norm, and ends with a TypeError. All shapes are
    fixed, so ONNX's own inference finds them; softmax's graph is node by node the same with either."""
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process

    folder = Path(job["folder"])
    if not (folder / ONNX_FILE).exists():
        prepare_onnxruntime(job)
    inferred = folder / "inferred.onnx"
    quant_pre_process(str(folder / ONNX_FILE), str(inferred), skip_symbolic_shape=True)
    quantize_dynamic(
        inferred,
        folder / ONNX_INT8_FILE,
        op_types_to_quantize=["MatMul"],  # Gemm becomes one first
        per_channel=True,
        weight_type=QuantType.QInt8,
    )
    inferred.unlink()


def prepare_openvino_nncf(job: Job) -> None:
    """Post-training quantisation with NNCF's scheme for transformers, calibrated on random batches other than the input."""
    report_nothing()
    import nncf
    import numpy as np
    import openvino

    folder = Path(job["folder"])
    if not (folder / OPENVINO_FILE).exists():
        prepare_openvino(job)
    random, shape = np.random.default_rng(1), load_array(job, INPUT).shape
    batches = [
        random.standard_normal(shape, dtype=np.float32) for _ in range(CALIBRATION_BATCHES)
    ]
    quantized = nncf.quantize(
        openvino.Core().read_model(folder / OPENVINO_FILE),
        nncf.Dataset(batches),
        model_type=nncf.ModelType.TRANSFORMER,
        subset_size=len(batches),
    )
    openvino.save_model(quantized, folder / OPENVINO_INT8_FILE, compress_to_fp16=False)


# timm's come first: the others are made of them. torch.compile needs no more.
PREPARE = {
    "timm": prepare_timm,
    "onnxruntime": prepare_onnxruntime,
    "onnxruntime-dynamic": prepare_onnxruntime_dynamic,
    "openvino": prepare_openvino,
    "openvino-nncf": prepare_openvino_nncf,
}


# A pass computes the logits of the prepared input, or a step of training, which returns nothing.
Pass = Callable[[], Any]


@contextlib.contextmanager
def open_timm(job: Job) -> Iterator[Pass]:
    import torch

    torch.set_num_threads(job["threads"])
    if job["stage"] == "train_step":
        yield training_step(job)
        return
    dtype = getattr(torch, job["precision"])
    model = load_model(job).to(dtype)
    images = torch.from_numpy(load_array(job, INPUT))
    with torch.inference_mode():
        yield lambda: model(images.to(dtype)).float().numpy()


@contextlib.contextmanager
def open_compiled(job: Job) -> Iterator[Pass]:
    """torch.compile with frozen weights, PyTorch's setting for inference on a CPU. Compiling is no part of a pass."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(job["folder"]).resolve() / "inductor")
    os.environ["TORCHINDUCTOR_FREEZING"] = "1"
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # more would outlive the turn
    import torch

    torch.set_num_threads(job["threads"])
    dtype = getattr(torch, job["precision"])
    model = torch.compile(load_model(job).to(dtype))
    images = torch.from_numpy(load_array(job, INPUT))
    with torch.inference_mode():
        model(images.to(dtype))
        yield lambda: model(images.to(dtype)).float().numpy()


def training_step(job: Job) -> Pass:
    """Forward, cross-entropy, backward, AdamW; bfloat16 is autocast over float32 weights. Large
    blocks stay in the heap, as in hydrascope: without that PyTorch is slower."""
    import torch

    c_library = ctypes.CDLL(None)
    for threshold in (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD):
        c_library.mallopt(threshold, 1 << 30)
    torch.manual_seed(0)
    model = make_model(job).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.05, fused=True)
    criterion = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
    images = torch.randn(job["batch"], 3, *job["img_size"])
    targets = torch.randint(1000, (job["batch"],))
    is_bfloat16 = job["precision"] == "bfloat16"

    def once() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=is_bfloat16):
            loss = criterion(model(images), targets)
        loss.backward()
        optimizer.step()
        loss.item()

    return once


@contextlib.contextmanager
def open_onnxruntime(job: Job) -> Iterator[Pass]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = job["threads"]
    options.inter_op_num_threads = 1
    file = ONNX_INT8_FILE if job["precision"] == "int8" else ONNX_FILE
    session = onnxruntime.InferenceSession(
        str(Path(job["folder"]) / file), options, providers=["CPUExecutionProvider"]
    )
    feed = {session.get_inputs()[0].name: load_array(job, INPUT)}
    yield lambda: session.run(None, feed)[0]


@contextlib.contextmanager
def open_openvino(job: Job) -> Iterator[Pass]:
    import openvino

    settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": job["threads"]}
    # The rest of a quantised model is computed in OpenVINO's own choice for the processor.
    wanted = {"float32": "f32", "bfloat16": "bf16"}.get(job["precision"])
    if wanted:
        settings["INFERENCE_PRECISION_HINT"] = wanted
    file = Path(job["folder"]) / (OPENVINO_FILE if wanted else OPENVINO_INT8_FILE)
    compiled = openvino.Core().compile_model(str(file), "CPU", settings)
    chosen = compiled.get_property("INFERENCE_PRECISION_HINT").to_string()
    if wanted and chosen != wanted:
        raise RuntimeError(f"OpenVINO computes {chosen} on this processor when asked for {wanted}")
    images = load_array(job, INPUT)
    request = compiled.create_infer_request()
    yield lambda: request.infer({0: images}, share_inputs=True, share_outputs=True)[0]


OPEN = {
    "timm": open_timm,
    "torch-compile": open_compiled,
    "onnxruntime": open_onnxruntime,
    "onnxruntime-dynamic": open_onnxruntime,
    "openvino": open_openvino,
    "openvino-nncf": open_openvino,
}


def relative_error(logits: Any, job: Job) -> float:
    """The distance to timm's float32 logits over their length."""
    import numpy as np

    reference = load_array(job, REFERENCE).astype(np.float64)
    error = np.linalg.norm(logits.astype(np.float64) - reference) / np.linalg.norm(reference)
    if not np.isfinite(error):
        raise RuntimeError("the logits are not finite")
    return float(error)
