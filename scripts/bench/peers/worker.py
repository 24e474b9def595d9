"""The peers' side of a comparison, run in an environment that has them.

Reads one JSON object a line ({"do": ACTION, ...}) and answers with one a line: what was measured,
or {"error": why not}. On the CPU every turn has a process of its own. On a GPU one process lives
through a whole run, so that what it compiled stays compiled, and idles while hydrascope is
measured.

    versions     of what `kind` needs
    prepare      makes weights, input and reference, or an exported model, in `folder`; timm's come
                 first: the others are made of them and compared with them
    measure      one turn: `kind`, the work, and how long to measure it
    gpu          names and versions; an error where there is none
    matrix_rate  TFLOP/s of a bf16 product on the GPU
    sdpa         softmax attention alone on the GPU, by one backend
"""

import importlib.metadata
import json
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

import cpu_peers
import timing

Json = dict[str, Any]
Job = cpu_peers.Job


def versions(job: Job) -> Json:
    packages = cpu_peers.PACKAGES[job["kind"]]
    return {name: importlib.metadata.version(name) for name in packages}


def prepare(job: Job) -> Json:
    cpu_peers.PREPARE[job["kind"]](job)
    return {}


def measure(job: Job) -> Json:
    """Warms up and measures as `hydrascope benchmark` does with the same options."""
    if job["kind"] == "gpu":
        import gpu_peers

        opened, clear, peak = gpu_peers.open_on_gpu, gpu_peers.clear_peak, gpu_peers.peak
    else:
        opened = cpu_peers.OPEN[job["kind"]]
        clear, peak = timing.clear_peak_memory, timing.peak_memory_bytes
    with opened(job) as once:
        before, _ = timing.times_of(once, lambda *past: timing.is_warm(*past, job))
        clear()
        times, output = timing.times_of(once, lambda *past: timing.is_enough(*past, job))
        result = timing.summary(times) | {"warmup": len(before), "peak_memory_bytes": peak()}
    result["images_per_second"] = 1e3 * job["batch"] / result["ms_p50"]
    if output is not None:
        result["relative_error"] = cpu_peers.relative_error(output, job)
    return result


def on_gpu(action: str) -> Callable[[Job], Json]:
    def answer_by(job: Job) -> Json:
        import gpu_peers  # takes seconds

        found: Json = getattr(gpu_peers, action)(job)
        return found

    return answer_by


ACTIONS: dict[str, Callable[[Job], Json]] = {
    "versions": versions,
    "prepare": prepare,
    "measure": measure,
    "gpu": on_gpu("describe"),
    "matrix_rate": on_gpu("matrix_rate"),
    "sdpa": on_gpu("sdpa"),
}


out_of_memory_before = False  # the answer before this one


def answer(job: Job) -> Json:
    global out_of_memory_before
    ran_out, out_of_memory_before = out_of_memory_before, False
    try:
        return ACTIONS[job["do"]](job)
    except Exception as error:  # a peer that refuses is a result, not the end of the run
        kind = type(error).__name__
        if kind == "OutOfMemoryError":  # torch's
            # Some peers never fit. A compiled model takes minutes again, so it goes only if the next does not fit either.
            if ran_out:
                sys.modules["gpu_peers"].models.clear()
            out_of_memory_before = True
            return {"error": "out of memory"}
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return {"error": f"{kind}: {lines[0] if lines else ''}"[:300]}
    finally:
        if "gpu_peers" in sys.modules:
            sys.modules["torch"].cuda.empty_cache()  # hydrascope is next


def main() -> None:
    warnings.simplefilter("ignore")  # what the tracers say about shapes
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no reply
    for line in sys.stdin:
        replies.write(json.dumps(answer(json.loads(line))) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
