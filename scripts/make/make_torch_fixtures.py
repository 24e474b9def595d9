"""Files of torch.save for tests/model/checkpoint/formats/torch/torch_pickle_test.cpp.

    python scripts/make/make_torch_fixtures.py

Writes tests/data/torch/*.pth and its README.md. Every tensor is `ramp(k, shape)`: element i
(row-major) is i / 8 - k, which every float type below holds exactly. The two hostile files only ask
for what they contain: writing them executes nothing. Needs torch and numpy.
"""

import argparse
import collections
import os
from pathlib import Path

import numpy
import torch
from torch import nn

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "data" / "torch"

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
    return {
        "weight": ramp(0, 2, 3),
        "bias": ramp(1, 3),
        "scale": ramp(2),
        "nothing": torch.zeros(0, 4),
        "num_batches_tracked": torch.tensor(7),
        "note": "no tensor",
    }


def linear() -> nn.Module:
    module = nn.Linear(3, 2)
    with torch.no_grad():
        module.weight.copy_(ramp(0, 2, 3))
        module.bias.copy_(ramp(1, 2))
    return module


def training() -> dict:
    """What timm's CheckpointSaver and DeiT's main.py write, together."""
    module = linear()
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.001)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2, 4])
    module(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    schedule.step()
    averaged = collections.OrderedDict(weight=ramp(5, 2, 3), bias=ramp(6, 2))
    return {
        "epoch": 12,
        "arch": "vit_tiny_patch16_224",
        "state_dict": linear().state_dict(),
        "optimizer": optimizer.state_dict(),
        "lr_scheduler": schedule.state_dict(),
        "version": 2,
        "args": argparse.Namespace(
            model="vit_tiny_patch16_224", lr=0.001, amp=True, resume=None, input_size=[3, 224, 224]
        ),
        "metric": numpy.float64(71.5),
        "top5": numpy.float32(90.25),
        "best_epoch": numpy.int64(-3),
        "shape": torch.Size([2, 3]),
        "device": torch.device("cuda", 0),
        "dtype": torch.bfloat16,
        "classes": {1, 2, 3},
        "digest": b"\x00\xff",
        "state_dict_ema": averaged,
    }


def dtypes() -> dict:
    return {
        "bf16": ramp(1, 3, dtype=torch.bfloat16),
        "f16": ramp(2, 3, dtype=torch.float16),
        "f64": ramp(3, 3, dtype=torch.float64),
        "f8": ramp(1, 2, dtype=torch.float8_e5m2),
        "i64": torch.tensor([-1, 2]),
        "i32": torch.tensor([-1, 2], dtype=torch.int32),
        "i16": torch.tensor([-1, 2], dtype=torch.int16),
        "i8": torch.tensor([-1, 2], dtype=torch.int8),
        "u8": torch.tensor([1, 255], dtype=torch.uint8),
        "u16": torch.tensor([1, 65535], dtype=torch.uint16),
        "bool": torch.tensor([True, False]),
    }


def views() -> dict:
    base = ramp(0, 4, 6)
    return {
        "base": base,
        "same": base,
        "rows": base[1:3],
        "transposed": base.t(),
        "strided": base[::2, 1::2],
        "permuted": base.reshape(2, 2, 6).permute(2, 0, 1),
        "expanded": base[:, :1].expand(4, 5),
        "element": base[3, 5],
        "column": base[:, 2:3],
    }


# Made without source text: the legacy format stores the source of a module's class, with its path.
Net = type("Net", (nn.Module,), {})


class OsSystem:
    def __reduce__(self):
        return os.system, ("touch hydrascope_executed_a_pickle",)


class Eval:
    def __reduce__(self):
        return eval, ("open('hydrascope_executed_a_pickle', 'w')",)


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    parameters = {"weight": nn.Parameter(ramp(0, 2, 3)), "bias": nn.Parameter(ramp(1, 3), False)}
    parameters["bias"].note = "an attribute"
    distributed = {"model": nn.DataParallel(linear()).state_dict()}
    no_tensors = {"epoch": 1, "state_dict": {}, "history": [1, 2]}
    tied = ramp(0, 2, 3)
    legacy = {"weight": tied, "row": tied[1], "transposed": tied.t(), "half": ramp(2, 3).half()}
    old = {"_use_new_zipfile_serialization": False}
    files = [
        ("plain", plain(), {}, "a dict: tensors of rank 0 and 2, no elements, an integer, a text"),
        ("ordered", linear().state_dict(), {}, "an OrderedDict with `_metadata`"),
        ("training", training(), {}, "optimizer, scheduler, `args`, numpy scalars, EMA"),
        ("dtypes", dtypes(), {}, "one tensor of each dtype"),
        ("views", views(), {}, "tensors of one storage: sliced, transposed, strided, expanded"),
        ("parameters", parameters, {}, "`nn.Parameter`, one of them with an attribute"),
        ("distributed", distributed, {}, "names that begin with `module.`, under `model`"),
        ("protocol_4", training(), {"pickle_protocol": 4}, "`training` with pickle protocol 4"),
        ("protocol_5", training(), {"pickle_protocol": 5}, "`training` with pickle protocol 5"),
        ("legacy", legacy, old, "the format before PyTorch 1.6, with a shared storage"),
        ("module", linear(), {}, "a whole `nn.Linear`"),
        ("module_legacy", Net(), old, "a whole module in the legacy format"),
        ("no_tensors", no_tensors, {}, "no tensor anywhere"),
        ("os_system", {"weight": ramp(0, 2), "x": OsSystem()}, {}, "calls `os.system`"),
        ("builtins_eval", {"weight": ramp(0, 2), "x": Eval()}, {}, "calls `eval`"),
    ]
    rows = []
    for name, value, options, what in files:
        torch.save(value, FOLDER / f"{name}.pth", **options)
        rows.append(f"| `{name}.pth` | {what} |")
    versions = {"torch": torch.__version__, "numpy": numpy.__version__}
    (FOLDER / "README.md").write_text(README.format(rows="\n".join(rows), **versions))


if __name__ == "__main__":
    main()
