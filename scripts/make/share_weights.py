"""Writes the weights that one bundled model has and another one lacks, and an index of both files.

    python scripts/make/share_weights.py MODEL.safetensors BASE.safetensors FOLDER/NAME.json

MODEL's tensors are BASE's and others. The others go to FOLDER/NAME.shard, and the index, in the form of Hugging Face's
sharded checkpoints, names that file and BASE, which lies in FOLDER. Needs NumPy and safetensors.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from safetensors import safe_open
from safetensors_writer import write_safetensors


def read_safetensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    with safe_open(path, "np") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("base", type=Path)
    parser.add_argument("index", type=Path)
    arguments = parser.parse_args()
    tensors, metadata = read_safetensors(arguments.model)
    shared, of_base = read_safetensors(arguments.base)
    for name, tensor in shared.items():
        if not np.array_equal(tensors[name], tensor):
            parser.error(f"{name} of {arguments.model} is not {arguments.base}'s")
    # Shards agree where both say something.
    metadata = {key: text for key, text in metadata.items() if of_base.get(key, text) == text}
    if leaks := [key for key, text in metadata.items() if any(at in text for at in ("/tmp", "/home", "/work", "/root"))]:
        parser.error(f"a path of this machine in {leaks}")
    shard = arguments.index.with_suffix(".shard")
    write_safetensors(shard, {name: tensor for name, tensor in tensors.items() if name not in shared}, metadata)
    files = {name: arguments.base.name if name in shared else shard.name for name in tensors}
    arguments.index.write_text(json.dumps({"weight_map": dict(sorted(files.items()))}, indent=0) + "\n")


if __name__ == "__main__":
    main()
