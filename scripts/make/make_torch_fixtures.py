"""Files of torch.save and of the safetensors library for tests/model/checkpoint.

    python scripts/make/make_torch_fixtures.py        # needs torch, timm, numpy and safetensors

- tests/data/torch/*.pth, float8.safetensors and README.md. Every tensor is `ramp(k, shape)`: element i (row-major) is i / 8 - k, which every
  float type below holds exactly. To write the two hostile files executes nothing.
- tests/data/checkpoints/*.pth: what training programs leave behind, of a very small ViT. Weights are those of deterministic_weights.py, rounded
  to float16, so that C++ can make them again: seed 1, and seed 2 for the moving average. Names are timm's
  (https://github.com/huggingface/pytorch-image-models, Apache-2.0).
- tests/data/safetensors/library.safetensors: every dtype that torch has a name for, a scalar, an empty tensor, names that are not ASCII, and
  metadata. safetensors_writer_test.cpp reads it and writes it again.
"""

import argparse
import collections
import copyreg
import dataclasses
import datetime
import decimal
import enum
import functools
import json
import os
import struct
import types
from pathlib import Path

import numpy
import safetensors
import torch
from safetensors.torch import save_file
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from deterministic_weights import deterministic

DATA = Path(__file__).resolve().parents[2] / "tests" / "data"
FOLDER = DATA / "torch"
FLOATS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8", "bool", "uint16", "uint32", "uint64")
LEGACY = {"_use_new_zipfile_serialization": False}

README = """# Files of torch.save

Made by `scripts/make/make_torch_fixtures.py` with torch {torch} and numpy {numpy}. Element i (row-major)
of a tensor is i / 8 - k; k and the shape of each are in `torch_pickle_test.cpp`.

| file | what |
|---|---|
{rows}

`os_system.pth` and `builtins_eval.pth` would create the file `hydrascope_executed_a_pickle` in the
working directory if something executed them. Keys of storages in the legacy files are addresses, so
these two differ from run to run.
"""


def ramp(k: int, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    count = int(numpy.prod(shape, dtype=int))
    return (torch.arange(count, dtype=torch.float64) / 8 - k).reshape(shape).to(dtype)


def plain() -> dict:
    return {"weight": ramp(0, 2, 3), "bias": ramp(1, 3), "scale": ramp(2), "nothing": torch.zeros(0, 4),
            "num_batches_tracked": torch.tensor(7), "note": "no tensor"}


def linear() -> nn.Module:
    module = nn.Linear(3, 2)
    with torch.no_grad():
        module.weight.copy_(ramp(0, 2, 3))
        module.bias.copy_(ramp(1, 2))
    return module


def training() -> dict:
    """The files of timm's CheckpointSaver and DeiT's main.py, together."""
    module = linear()
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.001)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2, 4])
    module(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    schedule.step()
    averaged = collections.OrderedDict(weight=ramp(5, 2, 3), bias=ramp(6, 2))
    arguments = argparse.Namespace(model="vit_tiny_patch16_224", lr=0.001, amp=True, resume=None, input_size=[3, 224, 224])
    return {
        "epoch": 12, "arch": "vit_tiny_patch16_224", "state_dict": linear().state_dict(), "optimizer": optimizer.state_dict(),
        "lr_scheduler": schedule.state_dict(), "version": 2, "args": arguments, "metric": numpy.float64(71.5),
        "top5": numpy.float32(90.25), "best_epoch": numpy.int64(-3), "shape": torch.Size([2, 3]), "device": torch.device("cuda", 0),
        "dtype": torch.bfloat16, "classes": {1, 2, 3}, "digest": b"\x00\xff", "state_dict_ema": averaged,
    }


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Settings:
    lr: float = 0.1
    size: tuple = (3, 4)


class Plain:
    def __init__(self) -> None:
        self.tensor = ramp(3, 2)


class Slots:
    __slots__ = ("a",)


class AttributeDict(dict):
    """Lightning's hyper_parameters, yacs's CfgNode: a dict with more."""

    def __init__(self, items: dict) -> None:
        super().__init__(items)
        self.__dict__["frozen"] = True


class DictConfig:
    """OmegaConf's: a state with members of typing."""

    def __init__(self) -> None:
        self.state = {"type": dict, "any": types.SimpleNamespace(a=1)}

    def __getstate__(self) -> dict:
        return dict(self.state, self=self)


class WithKeywords:
    """Pickled by NEWOBJ_EX, before protocol 4 by functools.partial and getattr."""

    def __new__(cls, *, size: int = 1):
        return super().__new__(cls)

    def __getnewargs_ex__(self):
        return (), {"size": 2}


class Reduced:
    """All that __reduce_ex__ may give: arguments, state, items of a list and of a dict."""

    def __init__(self, size: int = 0) -> None:
        self.size = size

    def append(self, value: object) -> None:
        pass

    def __setitem__(self, key: object, value: object) -> None:
        pass

    def __reduce_ex__(self, protocol):
        return Reduced, (2,), {"size": 3}, iter([1, 2, 3]), iter([("a", 1), (Colour.RED, 2)])


class Reconstructed:
    def __reduce_ex__(self, protocol):
        return copyreg._reconstructor, (Reconstructed, object, None), {"a": 1}


class Pixels(torch.Tensor):
    """A tensor that only its class can make."""


class StateDict(collections.OrderedDict):
    """A state dict that only its class can make."""


def beside() -> dict:
    """Weights and what trainers put beside them: nothing of it is a weight, most of it unknown."""
    return {
        "model": linear().state_dict(), "args": argparse.Namespace(out=Path("/a"), lr=0.5),
        "array": numpy.arange(6, dtype=numpy.float32).reshape(2, 3), "scalar": numpy.float64(1.5),
        "dtype": numpy.dtype("float32"), "random": numpy.random.RandomState(0),
        "generator": numpy.random.default_rng(0), "torch_random": torch.arange(16, dtype=torch.uint8),
        "history": collections.defaultdict(list, loss=[1.0, 2.0]), "counter": collections.Counter("aab"),
        "deque": collections.deque([1, 2], 3), "when": datetime.datetime(2024, 1, 2),
        "took": datetime.timedelta(seconds=5), "colour": Colour.RED,
        "by_colour": {Colour.RED: 1, (Colour.RED, 2): Colour.RED},
        "hyper_parameters": AttributeDict({"lr": 0.1, "path": Path("b")}), "config": DictConfig(),
        "norm": functools.partial(nn.LayerNorm, eps=1e-6), "settings": Settings(), "plain": Plain(), "slots": Slots(),
        "keywords": WithKeywords(), "reduced": Reduced(), "reconstructed": Reconstructed(), "set": {1, Colour.RED},
        "frozen": frozenset([1]), "complex": 1 + 2j, "bytes": bytearray(b"ab"), "decimal": decimal.Decimal("1.5"),
        "range": range(3), "slice": slice(1, 2), "method": decimal.Decimal(1).sqrt, "function": ramp,
        "class": nn.GELU, "module": nn.Linear(1, 1), "pixels": ramp(1, 2).as_subclass(Pixels),
        "size": torch.Size([1]), "device": torch.device("cpu"), "layout": torch.strided,
        "complex_tensor": torch.zeros(2, dtype=torch.complex128),
        "conjugated": torch.ones(2, dtype=torch.complex64).conj(),
    }


FLOAT8 = {"F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2,
          "F8_E4M3FNUZ": torch.float8_e4m3fnuz, "F8_E5M2FNUZ": torch.float8_e5m2fnuz}


def float8() -> dict:
    """All codes of each kind."""
    codes = torch.arange(256, dtype=torch.uint8)
    return {name: codes.view(dtype).reshape(16, 16) for name, dtype in FLOAT8.items()}


def write_float8_values(file: Path) -> None:
    """The codes by torch's word, as float32."""
    values = [codes.to(torch.float32).contiguous().numpy().tobytes() for codes in float8().values()]
    header = {name: {"dtype": "F32", "shape": [16, 16], "data_offsets": [1024 * i, 1024 * (i + 1)]} for i, name in enumerate(FLOAT8)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(values))


def dtypes() -> dict:
    floats = {"bf16": ramp(1, 3, dtype=torch.bfloat16), "f16": ramp(2, 3, dtype=torch.float16), "f64": ramp(3, 3, dtype=torch.float64),
              "f8": ramp(1, 2, dtype=torch.float8_e5m2)}
    whole = {f"i{bits}": torch.tensor([-1, 2], dtype=getattr(torch, f"int{bits}")) for bits in (64, 32, 16, 8)}
    return {**floats, **whole, "u8": torch.tensor([1, 255], dtype=torch.uint8),
            "u16": torch.tensor([1, 65535], dtype=torch.uint16), "bool": torch.tensor([True, False])}


def views() -> dict:
    base = ramp(0, 4, 6)
    return {
        "base": base, "same": base, "rows": base[1:3], "transposed": base.t(), "strided": base[::2, 1::2],
        "permuted": base.reshape(2, 2, 6).permute(2, 0, 1), "expanded": base[:, :1].expand(4, 5),
        "element": base[3, 5], "column": base[:, 2:3],
    }


# Made without source text: the legacy format stores the source of a module's class, with its path.
Net = type("Net", (nn.Module,), {})


class OsSystem:
    def __reduce__(self):
        return os.system, ("touch hydrascope_executed_a_pickle",)


class Eval:
    def __reduce__(self):
        return eval, ("open('hydrascope_executed_a_pickle', 'w')",)


def write_library_file() -> None:
    values = torch.tensor([[0.0, 1.0, -2.5], [3.0, 0.5, 96.0]])
    whole = values.abs().to(torch.uint8)
    tensors = {name: values.to(getattr(torch, name)) for name in FLOATS} | {name: whole.to(getattr(torch, name)) for name in INTEGERS}
    tensors |= {"a scalar": torch.tensor(7.25), "nothing": torch.empty(0, 3), 'blöcke.0."é€𝄞"\n': torch.ones(1)}
    save_file(tensors, DATA / "safetensors" / "library.safetensors", {"written_by": f"safetensors {safetensors.__version__}"})


def vit(seed: int, prefix: str = "") -> "collections.OrderedDict[str, torch.Tensor]":
    model = VisionTransformer(img_size=32, patch_size=8, embed_dim=64, depth=1, num_heads=1, mlp_ratio=1, num_classes=5)
    return collections.OrderedDict((prefix + name, torch.from_numpy(deterministic(name, tensor.shape, seed)).half())
                                   for name, tensor in model.state_dict().items())


def write_checkpoints() -> None:
    optimizer = {"state": {0: {"step": torch.tensor(3.0)}}, "param_groups": [{"params": [0]}]}
    saved = {"epoch": 3, "state_dict": vit(1, "module."), "optimizer": optimizer, "args": argparse.Namespace(lr=1e-3, mean=None),
             "state_dict_ema": vit(2, "module."), "metric": 71.5}
    torch.save(saved, DATA / "checkpoints" / "timm_training.pth")
    # facebookresearch/deit saves {"model": ...}; before PyTorch 1.6 it was no zip file.
    torch.save({"model": vit(1), "epoch": 299}, DATA / "checkpoints" / "deit_legacy.pth", **LEGACY)


def main() -> None:
    parameters = {"weight": nn.Parameter(ramp(0, 2, 3)), "bias": nn.Parameter(ramp(1, 3), False)}
    parameters["bias"].note = "an attribute"
    distributed = {"model": nn.DataParallel(linear()).state_dict()}
    no_tensors = {"epoch": 1, "state_dict": {}, "history": [1, 2]}
    tied = ramp(0, 2, 3)
    legacy = {"weight": tied, "row": tied[1], "transposed": tied.t(), "half": ramp(2, 3).half()}
    attribute = ramp(0, 2, 3)  # a plain tensor that bears one is saved by _rebuild_from_type_v2
    attribute.note = "an attribute"
    # Without modules: the format stores the source of their classes, with its path.
    for_legacy = {key: value for key, value in beside().items() if key not in ("norm", "class", "module")}
    files = [
        ("plain", plain(), "a dict: tensors of rank 0 and 2, no elements, an integer, a text"),
        ("ordered", linear().state_dict(), "an OrderedDict with `_metadata`"),
        ("training", training(), "optimizer, scheduler, `args`, numpy scalars, EMA"), ("dtypes", dtypes(), "one tensor of each dtype"),
        ("views", views(), "tensors of one storage: sliced, transposed, strided, expanded"),
        ("parameters", parameters, "`nn.Parameter`, one of them with an attribute"),
        ("distributed", distributed, "names that begin with `module.`, under `model`"),
        ("protocol_4", training(), "`training` with pickle protocol 4"), ("protocol_5", training(), "`training` with pickle protocol 5"),
        ("legacy", legacy, "the format before PyTorch 1.6, with a shared storage"), ("module", linear(), "a whole `nn.Linear`"),
        ("module_legacy", Net(), "a whole module in the legacy format"),
        ("beside_2", beside(), "weights, and 41 kinds of values beside them, by protocol 2"),
        ("beside_4", beside(), "`beside_2` with pickle protocol 4"), ("beside_5", beside(), "`beside_2` with pickle protocol 5"),
        ("beside_legacy", for_legacy, "`beside_2` in the legacy format"),
        ("attribute", {"weight": attribute, "bias": ramp(1, 3)}, "a tensor with an attribute"),
        ("subclass", {"model": {"weight": ramp(0, 2).as_subclass(Pixels)}}, "a subclass of tensors as a weight"),
        ("custom_dict", {"state_dict": StateDict(linear().state_dict())}, "a subclass of dicts as the state dict"),
        ("arrays", {"model": {"weight": numpy.zeros(2), "bias": ramp(0, 2)}}, "a weight that is NumPy's"),
        ("module_beside", {"model": linear(), "state_dict": linear().state_dict()}, "a whole module beside its weights"),
        ("module_inside", {"net": linear(), "epoch": 1}, "a whole module, and no weights"),
        ("two_dicts", {"teacher": linear().state_dict(), "student": linear().state_dict()}, "two state dicts of other names"),
        ("one_dict", {"teacher": linear().state_dict(), "epoch": 1}, "one state dict of another name"),
        ("conjugated", {"weight": torch.ones(2, dtype=torch.complex64).conj()}, "a conjugated view as a weight"),
        ("float8", float8(), "all codes of four kinds of float8; `float8.safetensors` has torch's float32 of them"),
        ("no_tensors", no_tensors, "no tensor anywhere"), ("os_system", {"weight": ramp(0, 2), "x": OsSystem()}, "calls `os.system`"),
        ("builtins_eval", {"weight": ramp(0, 2), "x": Eval()}, "calls `eval`"),
    ]
    rows = []
    for name, value, what in files:
        options = LEGACY if "legacy" in name else {"pickle_protocol": int(name[-1]) if "_" in name[-2:] else 2}
        torch.save(value, FOLDER / f"{name}.pth", **options)
        rows.append(f"| `{name}.pth` | {what} |")
    write_float8_values(FOLDER / "float8.safetensors")
    write_library_file()
    write_checkpoints()
    (FOLDER / "README.md").write_text(README.format(rows="\n".join(rows), torch=torch.__version__, numpy=numpy.__version__))


if __name__ == "__main__":
    main()
