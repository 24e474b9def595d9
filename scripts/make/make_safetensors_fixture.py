"""Makes tests/data/safetensors/library.safetensors with the safetensors library: what others write.

    python scripts/make/make_safetensors_fixture.py

Needs torch and safetensors. Every dtype that torch has a name for, a scalar, an empty tensor, names
that are not ASCII, and metadata. tests/model/checkpoint/formats/safetensors_writer_test.cpp reads it and
writes it again.
"""

from pathlib import Path

import safetensors
import torch
from safetensors.torch import save_file

FILE = Path(__file__).resolve().parents[2] / "tests" / "data" / "safetensors" / "library.safetensors"
VALUES = torch.tensor([[0.0, 1.0, -2.5], [3.0, 0.5, 96.0]])


def main() -> None:
    tensors = {
        str(dtype).removeprefix("torch."): VALUES.to(dtype)
        for dtype in (
            torch.float64,
            torch.float32,
            torch.float16,
            torch.bfloat16,
            torch.float8_e4m3fn,
            torch.float8_e5m2,
            torch.complex64,
        )
    }
    whole = VALUES.abs().to(torch.uint8)
    for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool):
        tensors[str(dtype).removeprefix("torch.")] = whole.to(dtype)
    for bits in (16, 32, 64):
        tensors[f"uint{bits}"] = whole.to(getattr(torch, f"uint{bits}"))
    tensors["a scalar"] = torch.tensor(7.25)
    tensors["nothing"] = torch.empty(0, 3)
    tensors['blöcke.0."é€𝄞"\n'] = torch.ones(1)
    FILE.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, FILE, {"written_by": f"safetensors {safetensors.__version__}"})
    print(FILE.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
