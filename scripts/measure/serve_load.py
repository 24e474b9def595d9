#!/usr/bin/env python3
"""Loads `hydrascope serve` with many clients at a time and compares it with `classify`; the standard library only.

    serve_load.py PROGRAM [--model NAME] [--pictures FOLDER] [--clients N] [--seconds S] [--json FILE]

Of a hundred requests by default 90 are good pictures, 5 are broken ones, and 5 are larger than the server takes. A client that is refused
with 503 comes again after the time that the server names. Before it, and after it, `classify` looks at the same good pictures, as often as
takes some 20 seconds. What has to hold, or the end is 1:

- every response is the one that its request deserves, or 503;
- the memory, from a fifth of the time on, grows by at most 5 %;
- of the good pictures 99 % are answered within three times the mean batch's seconds, as the server counts them;
- the server answers at least 95 % as many good pictures a second as `classify`.

The clients need a part of the machine that the server would have had: say on how many processors both ran.
"""

import argparse
import asyncio
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
MAX_BYTES = 4_000_000


class Responses:
    def __init__(self):
        self.seconds = []  # of good pictures
        self.statuses = {}
        self.wrong = []


async def head_lines(reader):
    return (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")


async def ask(port, method, target, body, kept):
    """(status, Retry-After, body); `kept` is a list that keeps a connection that stays open."""
    reader, writer = kept.pop() if kept else await asyncio.open_connection("127.0.0.1", port)
    open_still = False
    try:
        # As curl does with what is large: a server that refuses spares both the body.
        waits = len(body) > 1000
        expect = "Expect: 100-continue\r\n" if waits else ""
        writer.write(f"{method} {target} HTTP/1.1\r\nHost: localhost:{port}\r\n{expect}Content-Length: {len(body)}\r\n\r\n".encode())
        if not waits:
            writer.write(body)
        lines = await head_lines(reader)
        if waits and " 100 " in lines[0]:
            writer.write(body)
            await writer.drain()
            lines = await head_lines(reader)
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        content = await reader.readexactly(int(fields["content-length"]))
        open_still = fields.get("connection", "") != "close"
        return int(lines[0].split(" ")[1]), float(fields.get("retry-after", 0)), content
    finally:
        if open_still:
            kept.append((reader, writer))
        else:
            writer.close()


async def client(port, requests, end, responses, seed):
    draw = random.Random(seed)
    kept = []
    while time.monotonic() < end:
        kind, body, wanted = draw.choice(requests)
        begin = time.monotonic()
        try:
            status, later, content = await ask(port, "POST", "/v1/classify", body, kept)
        except (OSError, asyncio.IncompleteReadError, ValueError, KeyError) as error:
            responses.wrong.append(f"{kind}: {error!r}")
            continue
        seconds = time.monotonic() - begin
        responses.statuses[status] = responses.statuses.get(status, 0) + 1
        if status == 503:
            await asyncio.sleep(later * draw.uniform(0.5, 1.5))
        elif status != wanted or (status == 200) != (b'"top":' in content):
            responses.wrong.append(f"{kind}: {status} {content[:200]!r}")
        elif status == 200:
            responses.seconds.append(seconds)
    for _, writer in kept:
        writer.close()


async def metrics(port):
    _, _, text = await ask(port, "GET", "/metrics", b"", [])
    lines = (line.rpartition(" ") for line in text.decode().splitlines() if not line.startswith("#"))
    return {key: float(value) for key, _, value in lines}


async def watch_memory(port, end, found):
    while time.monotonic() < end:
        found.append((await metrics(port))["process_resident_memory_bytes"])
        await asyncio.sleep(1)


async def load(port, requests, clients, seconds):
    responses, memory = Responses(), []
    before = await metrics(port)
    begin = time.monotonic()
    end = begin + seconds
    await asyncio.gather(watch_memory(port, end, memory), *(client(port, requests, end, responses, seed) for seed in range(clients)))
    took = time.monotonic() - begin
    after = await metrics(port)
    return responses, memory, took, {key: value - before.get(key, 0) for key, value in after.items()}


def classify_speed(program, options, files, count):
    """Pictures a second of one run, without its start."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as names:
        names.write("".join(f"{files[i % len(files)]}\n" for i in range(count)))
        names.flush()
        done = subprocess.run([program, "classify", *options, "-v", "--no-progress", "--format", "jsonl", f"@{names.name}"],
                              capture_output=True, text=True, check=True)
    images, seconds = re.search(r"timing: images=(\d+) seconds=(\S+)", done.stderr).groups()
    return int(images) / float(seconds)


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--model", help="default: the bundled one")
    parser.add_argument("--pictures", type=pathlib.Path, default=SOURCE / "assets/images")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--baseline-pictures", type=int, default=400)
    parser.add_argument("--bad", type=float, default=0.1, help="share of requests that are broken or oversized")
    parser.add_argument("--option", action="append", default=[], help="of both, as --option=--precision=int8")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    files = sorted(file for file in arguments.pictures.iterdir() if file.suffix in (".jpg", ".jpeg", ".png"))
    good = [("good", file.read_bytes(), 200) for file in files]
    if not good or max(len(body) for _, body, _ in good) > MAX_BYTES:
        parser.error(f"expected pictures of at most {MAX_BYTES} bytes in {arguments.pictures}")
    bad = [("broken", b"no picture at all", 415), ("oversized", bytes(MAX_BYTES + 1), 413)]
    repeats = max(round(len(good) * arguments.bad / (1 - arguments.bad) / len(bad) * 20), 1 if arguments.bad > 0 else 0)
    requests = good * 20 + bad * repeats
    options = [*(["-m", arguments.model] if arguments.model else []), *arguments.option]

    def speed_of_classify():
        return classify_speed(arguments.program, options, files, arguments.baseline_pictures)

    speeds = [speed_of_classify()]
    with subprocess.Popen([arguments.program, "serve", *options, "--port", "0", "--max-bytes", str(MAX_BYTES)], stdout=subprocess.PIPE,
                          text=True) as server:
        try:
            port = int(server.stdout.readline().strip().rstrip("/").rsplit(":", 1)[1])
            responses, memory, took, grown = asyncio.run(load(port, requests, arguments.clients, arguments.seconds))
        finally:
            server.send_signal(signal.SIGTERM)
        code = server.wait(60)
    speeds.append(speed_of_classify())

    batches = grown["hydrascope_batch_seconds_count"]
    batch_seconds = grown["hydrascope_batch_seconds_sum"] / max(batches, 1)
    settled = memory[len(memory) // 5:]
    speed = len(responses.seconds) / took
    result = {
        "clients": arguments.clients, "seconds": round(took, 1), "processors": len(os.sched_getaffinity(0)),
        "statuses": dict(sorted(responses.statuses.items())), "wrong": len(responses.wrong), "exit_code": code,
        "classify_pictures_per_second": [round(value, 2) for value in speeds], "serve_pictures_per_second": round(speed, 2),
        "share_of_classify": round(speed / max(speeds), 3),
        "batch_seconds": round(batch_seconds, 4), "batch_images": round(grown["hydrascope_batch_images_sum"] / max(batches, 1), 2),
        "p50_seconds": round(percentile(responses.seconds, 0.5), 4), "p99_seconds": round(percentile(responses.seconds, 0.99), 4),
        "p99_in_batches_of_clients": round(percentile(responses.seconds, 0.99) * speed * batches / max(grown["hydrascope_batch_images_sum"], 1), 2),
        "p99_in_batches": round(percentile(responses.seconds, 0.99) / batch_seconds, 2) if batches else None,
        "memory_mb": [round(value / 1e6, 1) for value in (settled[0], max(settled), settled[-1])],
    }
    print(json.dumps(result, indent=1))
    for text in responses.wrong[:10]:
        print("wrong:", text, file=sys.stderr)
    failed = []
    if responses.wrong or code != 0:
        failed.append("responses")
    if max(settled) > 1.05 * settled[0]:
        failed.append("memory")
    if not percentile(responses.seconds, 0.99) <= 3 * batch_seconds:
        failed.append("p99")
    if not speed >= 0.95 * max(speeds):
        failed.append("throughput")
    print("missed: " + ", ".join(failed) if failed else "all holds", file=sys.stderr)
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
