#!/usr/bin/env python3
"""A step of training, hydrascope against timm + PyTorch, in turns on this machine.

  training_throughput.py [--program FILE] [--model deit_tiny_patch16_224] [--img-size 224] [--batch 32] [--precision bfloat16]
                         [--threads N] [--rounds 5] [--attn softmax,hydra] [--json FILE]

Both: random images and labels, forward, cross-entropy, backward, AdamW; bfloat16 is autocast over float32 weights. hydrascope runs
`benchmark --stage train_step`. Prints the median images/s of each and the median of the rounds' ratios with their range; --json
has every round. Needs torch and timm; measure on a machine that does nothing else. glibc's allocator is told to keep large blocks
for both, which hydrascope does by itself: without that PyTorch is slower.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from model_report import machine

KEEP_LARGE_BLOCKS = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 30)}


def measure_timm(arguments):
    """Images/s, the median over `arguments.steps` steps."""
    import timm
    import torch

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    model = timm.create_model(arguments.model, img_size=arguments.img_size).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.05, fused=True)
    criterion = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
    images = torch.randn(arguments.batch, 3, arguments.img_size, arguments.img_size)
    targets = torch.randint(1000, (arguments.batch,))
    seconds = []
    for _ in range(arguments.steps + 2):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=arguments.precision == "bfloat16"):
            loss = criterion(model(images), targets)
        loss.backward()
        optimizer.step()
        loss.item()
        seconds.append(time.perf_counter() - begin)
    return arguments.batch / statistics.median(seconds[2:])


def measure_ours(arguments, attention):
    command = [arguments.program, "benchmark", "--stage", "train_step", "-m", arguments.model, "--attn", attention,
               "--img-size", str(arguments.img_size), "-b", str(arguments.batch), "--precision", arguments.precision,
               "--device", "cpu", "--threads", str(arguments.threads), "--warmup", "2", "--iters", str(arguments.steps),
               "--format", "json", "-q"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)["rows"][0]["images_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/hydrascope")
    parser.add_argument("--model", default="deit_tiny_patch16_224")
    parser.add_argument("--img-size", type=int, default=224)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="bfloat16")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--attn", default="softmax", help="mechanisms of hydrascope, separated by commas")
    parser.add_argument("--json", help="a file for every round's images/s")
    parser.add_argument("--timm-only", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.timm_only:
        print(measure_timm(arguments))
        return
    ours = {attention: [] for attention in arguments.attn.split(",")}
    theirs = []
    for _ in range(arguments.rounds):
        peer = subprocess.run([sys.executable, __file__, *sys.argv[1:], "--timm-only"], check=True, stdout=subprocess.PIPE, text=True,
                              env={**os.environ, **KEEP_LARGE_BLOCKS})
        theirs.append(float(peer.stdout))
        for attention, rates in ours.items():
            rates.append(measure_ours(arguments, attention))
    if arguments.json:
        settings = {name: getattr(arguments, name) for name in ("model", "img_size", "batch", "precision", "threads", "rounds", "steps")}
        rates = {"timm softmax": theirs, **{f"hydrascope {attention}": rates for attention, rates in ours.items()}}
        Path(arguments.json).write_text(json.dumps({**settings, "machine": machine(), "images_per_second": rates}, indent=1) + "\n")
    print(f"{arguments.model} at {arguments.img_size}, batch {arguments.batch}, {arguments.precision}, {arguments.threads} threads")
    print(f"timm softmax        {statistics.median(theirs):7.1f} images/s")
    for attention, rates in ours.items():
        ratios = [mine / peer for mine, peer in zip(rates, theirs)]
        print(f"hydrascope {attention:8} {statistics.median(rates):7.1f} images/s, {statistics.median(ratios):.2f} of timm's "
              f"({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
