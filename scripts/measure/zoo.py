"""Every plain vision transformer of timm's, with random weights: hydrascope's logits are timm's, or it refuses the model with the reason.

    python scripts/measure/zoo.py [NAME...] [--output FILE.jsonl]
    python scripts/measure/zoo.py --table FILE.jsonl     # the table of docs/checkpoints.md

Models have two blocks and lie in a folder of weights and config.json, as repositories timm/NAME have them. Weights have the scale of
trained ones: a small residual stream, so that an eps shows, and nothing that is zero or one. `classify --save-input` says what hydrascope's
model sees, and timm's sees the same. The exit code is 1 where an answer with exit code 0 is off by more than 1e-4 of the spread of timm's
logits, or where the program crashes. Needs numpy, timm, torch and safetensors, and for the largest models 16 GB of memory.
"""

from __future__ import annotations

import argparse
import collections
import json
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import timm
import torch
from safetensors.torch import save_file

Json = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build/release/hydrascope"
PLAIN = ("vision_transformer", "deit", "beit", "eva", "vision_transformer_relpos")
LIMIT = 1e-4
PICTURE = ROOT / "assets/images/otter-head.jpg"
ENDINGS = re.compile(r"(^|\.)(proj|fc2|w3|out)\.(weight|bias)$")


def fill(model: torch.nn.Module) -> torch.nn.Module:
    generator = torch.Generator().manual_seed(0)
    norms = {id(value) for module in model.modules() if "norm" in type(module).__name__.lower() for value in module.parameters(recurse=False)}
    with torch.no_grad():
        for name, value in model.named_parameters():
            random = torch.empty(value.shape).normal_(generator=generator)
            ends_branch = ENDINGS.search(name) is not None
            if id(value) in norms:
                scaled = 1 + 0.3 * random if name.endswith("weight") else 0.1 * random
            elif re.search(r"(gamma|gamma_\d|lambda_?\w*)$", name):
                scaled = 0.7 + 0.3 * random
            elif "relative_position_bias_table" in name:
                scaled = 0.7 * random
            elif "rope.freqs" in name:
                scaled = value.detach() * (1 + 0.2 * random) + 0.02 * random
            elif value.ndim == 4:
                scaled = 0.04 * random / math.sqrt(value[0].numel())
            elif re.search(r"(pos_embed|cls_token|reg_token|dist_token|latent)", name):
                scaled = 0.03 * random
            elif value.ndim == 2:
                scaled = 1.3 * (0.05 if ends_branch else 1) / math.sqrt(value.shape[1]) * random
            else:
                scaled = (0.005 if ends_branch else 0.1) * random
            value.copy_(scaled)
    return model.eval()


def build(name: str) -> torch.nn.Module:
    """Two blocks or one, and a classifier, also where timm's weights have none."""
    arguments: Json = {"num_classes": 10} if timm.get_pretrained_cfg(name).num_classes == 0 else {}
    if "sapiens2" in name:  # its own are a number for each block
        arguments["num_kv_heads"] = 1
    depth = 1 if re.search(r"_(7b|5b|3b)_|enormous|sapiens2", name) else 2
    try:
        return fill(timm.create_model(name, depth=depth, **arguments))
    except (TypeError, ValueError):  # a family of other parts
        return fill(timm.create_model(name, **arguments))


def write_weights(model: torch.nn.Module, file: Path) -> None:
    tensors, seen = {}, set()
    for name, value in model.state_dict().items():
        value = value.detach().contiguous()
        tensors[name] = value.clone() if value.data_ptr() in seen else value
        seen.add(value.data_ptr())
    save_file(tensors, file)


def hub_config(model: torch.nn.Module) -> Json:
    """As the repositories timm/NAME have it, which know no model_args."""
    pretrained = {key: value for key, value in model.pretrained_cfg.items() if value is not None and key not in ("state_dict", "source")}
    config = {"architecture": pretrained.pop("architecture"), "num_classes": model.num_classes, "num_features": model.num_features}
    if getattr(model, "global_pool", None):
        config["global_pool"] = model.global_pool
    return {**config, "pretrained_cfg": {**pretrained, "num_classes": model.num_classes}}


def logits_of(model: torch.nn.Module, pixels: np.ndarray) -> np.ndarray:
    """timm leaves out what fills no patch at the right and bottom; hydrascope's input has it no more."""
    images = torch.from_numpy(pixels)
    size = getattr(getattr(model, "patch_embed", None), "img_size", None)
    if size is not None:
        rest = [edge - found if 0 < edge - found < patch else 0
                for edge, found, patch in zip(size, images.shape[2:], model.patch_embed.patch_size)]
        images = torch.nn.functional.pad(images, (0, rest[1], 0, rest[0]))
    with torch.no_grad():
        found = model(images)
    return (sum(found) / 2 if isinstance(found, tuple) else found).double().numpy()


def ask(options: argparse.Namespace, folder: Path, model: torch.nn.Module) -> Json:
    command = [options.program, "classify", "--precision", "float32", "--device", "cpu", "--threads", "1", "--set", "progress=off", "--save-input",
               folder / "x.npy", "--save-logits", folder / "l.npy", "-m", folder / "m", PICTURE]
    process = subprocess.run([str(word) for word in command], capture_output=True, text=True, errors="replace")
    row: Json = {"code": process.returncode, "said": process.stderr.strip().replace(str(folder), "FOLDER")}
    if process.returncode != 0:
        is_refusal = process.returncode in (1, 2) and "error: " in process.stderr
        return {**row, "verdict": "refused" if is_refusal else "crashed"}
    try:
        expected = logits_of(model, np.load(folder / "x.npy"))
    except Exception as error:
        return {**row, "verdict": "differs", "said": f"{row['said']} | timm: {error}"}
    found = np.load(folder / "l.npy").astype(np.float64)
    row["difference"] = float(np.abs(found - expected).max() / expected.std()) if found.shape == expected.shape else math.inf
    return {**row, "verdict": "equal" if row["difference"] <= LIMIT else "differs"}


def measure(options: argparse.Namespace, name: str) -> Json:
    with tempfile.TemporaryDirectory(dir=options.work) as temporary:
        folder, model = Path(temporary), build(name)
        (folder / "m").mkdir()
        write_weights(model, folder / "m/model.safetensors")
        (folder / "m/config.json").write_text(json.dumps(hub_config(model), default=str))
        return {"name": name, **ask(options, folder, model)}


def print_table(file: Path) -> None:
    """Names and weights by the file of timm that makes them."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    weights = collections.Counter(full.partition(".")[0] for full in timm.list_pretrained())
    lines = []
    for module in (*PLAIN, "sum"):
        own = [row for row in rows if module == "sum" or timm.models.model_entrypoint(row["name"]).__module__.endswith("." + module)]
        equal = [row["name"] for row in own if row["verdict"] == "equal"]
        published = [sum(weights[name] for name in names) for names in (equal, [row["name"] for row in own])]
        share = f"{100 * len(equal) / max(1, len(own)):.0f} %"
        refused = sum(row["verdict"] == "refused" for row in own)
        lines.append([f"`{module}`" if module != "sum" else "sum", str(len(own)), f"{len(equal)} ({share})", str(refused),
                      f"{published[0]} of {published[1]}"])
    head = ["file of timm", "names", "equal", "refused", "published weights that are equal"]
    for cells in (head, ["---", *["---:"] * 4], *lines):
        print("| " + " | ".join(cells) + " |")
    print("largest difference:", max((row["difference"] for row in rows if row["verdict"] == "equal"), default=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", help="timm's names; all plain vision transformers without any")
    parser.add_argument("--program", type=Path, default=PROGRAM)
    parser.add_argument("--work", type=Path, help="where weights are written for a while")
    parser.add_argument("--output", type=Path, help="a JSON line for each answer, added to the file; what it has is not asked again")
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    if options.table:
        print_table(options.table)
        return
    torch.set_num_threads(1)
    names = options.names or [name for module in PLAIN for name in timm.list_models(module=module)]
    earlier = [json.loads(line) for line in options.output.read_text().splitlines()] if options.output and options.output.exists() else []
    verdicts: collections.Counter[str] = collections.Counter(row["verdict"] for row in earlier)
    done = {row["name"] for row in earlier}
    for name in filter(lambda name: name not in done, names):
        row = measure(options, name)
        verdicts[row["verdict"]] += 1
        if options.output:
            with options.output.open("a") as file:
                file.write(json.dumps(row) + "\n")
        said = row["said"].replace("\n", " | ")[:200]
        print(name, row["verdict"], f"{row['difference']:.1e}" if "difference" in row else "", said, flush=True)
    print(dict(verdicts))
    sys.exit(verdicts["differs"] + verdicts["crashed"] > 0)


if __name__ == "__main__":
    main()
