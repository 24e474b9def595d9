"""When a measurement is warm and when it is long enough: the rules of `hydrascope benchmark`."""

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from turns import percentile

Json = dict[str, Any]


def settled(samples: list[float], window: int = 3) -> bool:
    """The rule of `hydrascope benchmark`: the last two medians of three are within 2 %."""
    if len(samples) < 2 * window:
        return False
    before = statistics.median(samples[-2 * window : -window])
    return abs(statistics.median(samples[-window:]) - before) <= 0.02 * before


def is_warm(samples: list[float], seconds: float, job: Json) -> bool:
    if job.get("warmup") is not None:
        return len(samples) >= int(job["warmup"])
    return settled(samples) or len(samples) >= 20 or (len(samples) > 0 and seconds > 10)


def is_enough(samples: list[float], seconds: float, job: Json) -> bool:
    if job.get("iters") is not None:
        return len(samples) >= int(job["iters"])
    return len(samples) >= 5 and seconds >= float(job["duration"])


def times_of(
    once: Callable[[], Any], is_over: Callable[[list[float], float], bool]
) -> tuple[list[float], Any]:
    """Milliseconds of passes until `is_over(times, seconds)`, and what the last one returned."""
    times: list[float] = []
    output = None
    begin = time.perf_counter()
    while not is_over(times, time.perf_counter() - begin):
        before = time.perf_counter()
        output = once()
        times.append((time.perf_counter() - before) * 1e3)
    return times, output


def clear_peak_memory() -> None:
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        pass  # The peak then includes loading.


def peak_memory_bytes() -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def summary(times: list[float]) -> Json:
    return {
        "ms_p50": percentile(times, 50),
        "ms_p10": percentile(times, 10),
        "ms_p90": percentile(times, 90),
        "ms_mean": statistics.fmean(times),
        "iterations": len(times),
    }
