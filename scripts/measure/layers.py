"""Memory and speed of a training step with layers that join, share or leave in other ways.

    python scripts/measure/layers.py [-m vit_tiny_patch16_224] [--batch-size 16] [--steps 6] [--rounds 3] [-o FILE.json]

Trains each form for some steps on pictures of noise that it makes, in turns. A row has the largest resident size of the
whole process, the images per second of the steps behind the first, and the parameters of the written model; medians of
the rounds. Standard library only.
"""

import argparse
import json
import os
import statistics
import tempfile
from pathlib import Path

from program import PROGRAM, Json, machine, run, run_json, table

FORMS = {
    "plain": [],
    "--grad-checkpointing": ["--set", "grad-checkpointing=on"],
    "run.mlp-chunks=4": ["--set", "run.mlp-chunks=4"],
    "model.residual=reversible": ["--set", "model.residual=reversible"],
    "model.residual=gru": ["--set", "model.residual=gru"],
    "model.share-blocks=1, model.step-embed=on": ["--set", "model.share-blocks=1", "--set", "model.step-embed=on"],
    "model.halting=on": ["--set", "model.halting=on"],
}

CLASSES = ("n01440764", "n01443537")  # of ImageNet, which the models name


def make_pictures(folder: Path, size: int, count: int) -> None:
    for number in range(count):
        file = folder / CLASSES[number % 2] / f"{number}.ppm"
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(f"P6 {size} {size} 255\n".encode() + os.urandom(3 * size * size))


def train(arguments: argparse.Namespace, pictures: Path, output: Path, options: list[str]) -> Json:
    done = run([arguments.hydrascope, "train", pictures, "-m", arguments.model, "-o", output, "--force", "--epochs", 1, "--warmup-epochs", 0,
                "-b", arguments.batch_size, "--threads", arguments.threads, "--workers", 1, "--device", "cpu", "--set", "amp-dtype=float32",
                "--set", "run.log-interval=1", "-q", *options])
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    rates = [line["images_per_second"] for line in lines if "images_per_second" in line][1:]
    tensors = run_json([arguments.hydrascope, "inspect", output / "last.safetensors"])["tensors"]
    parameters = 0
    for tensor in tensors:
        elements = 1
        for length in tensor["shape"]:
            elements *= length
        parameters += elements
    return {"peak_bytes": done.peak_bytes, "images_per_second": statistics.median(rates), "parameters": parameters}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model", default="vit_tiny_patch16_224")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--forms", nargs="*", default=list(FORMS), choices=FORMS)
    parser.add_argument("--hydrascope", default=PROGRAM)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    taken: dict[str, list[Json]] = {name: [] for name in arguments.forms}
    with tempfile.TemporaryDirectory() as folder:
        pictures = Path(folder) / "pictures"
        pictures.mkdir()
        make_pictures(pictures, arguments.size, arguments.steps * arguments.batch_size)
        for _ in range(arguments.rounds):
            for name in arguments.forms:
                taken[name].append(train(arguments, pictures, Path(folder) / "run", FORMS[name]))
    rows = {name: {key: statistics.median(one[key] for one in found) for key in found[0]} for name, found in taken.items()}
    print(table(["form", "peak, MB", "images/s", "parameters, M"],
                [[name, f"{row['peak_bytes'] / 1e6:.0f}", f"{row['images_per_second']:.1f}", f"{row['parameters'] / 1e6:.2f}"]
                 for name, row in rows.items()]))
    if arguments.output:
        about = {"model": arguments.model, "size": arguments.size, "batch_size": arguments.batch_size, "threads": arguments.threads,
                 "rounds": arguments.rounds, "machine": machine(), "rows": rows}
        arguments.output.write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
