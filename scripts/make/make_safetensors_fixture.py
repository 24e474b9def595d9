"""Makes tests/data/safetensors/library.safetensors with the safetensors library: what others write.

    python scripts/make/make_safetensors_fixture.py

Needs torch and safetensors. Every dtype that torch has a name for, a scalar, an empty tensor, names that are not ASCII, and metadata.
tests/model/checkpoint/formats/safetensors_writer_test.cpp reads it and writes it again.
"""

from pathlib import Path

import safetensors
import torch
from safetensors.torch import save_file

FILE = Path(__file__).resolve().parents[2] / "tests" / "data" / "safetensors" / "library.safetensors"
FLOATS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8", "bool", "uint16", "uint32", "uint64")


def main() -> None:
    values = torch.tensor([[0.0, 1.0, -2.5], [3.0, 0.5, 96.0]])
    whole = values.abs().to(torch.uint8)
    tensors = {name: values.to(getattr(torch, name)) for name in FLOATS} | {name: whole.to(getattr(torch, name)) for name in INTEGERS}
    tensors |= {"a scalar": torch.tensor(7.25), "nothing": torch.empty(0, 3), 'blöcke.0."é€𝄞"\n': torch.ones(1)}
    save_file(tensors, FILE, {"written_by": f"safetensors {safetensors.__version__}"})
    print(FILE.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
