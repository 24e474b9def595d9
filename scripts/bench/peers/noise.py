"""The machine's other work during a turn: time that a hypervisor gave to its other guests (steal), and time of processes
that are no part of the turn. Standard library only; nothing is known where there is no /proc/stat."""

import os
import resource
from dataclasses import dataclass
from pathlib import Path

from turns import Json

# Percent, of the processors' time and of the median; a row with more is marked as noisy.
MOST = {"steal": 2.0, "others": 5.0, "spread": 10.0}


@dataclass(frozen=True)
class Moment:
    """Seconds of all processors since the machine began, and of this program's children that have ended."""

    total: float
    steal: float
    busy: float
    children: float


def moment(stat: Path = Path("/proc/stat")) -> Moment | None:
    try:
        word, *counts = stat.read_text(encoding="ascii").partition("\n")[0].split()
    except (OSError, ValueError):
        return None
    if word != "cpu" or len(counts) < 8:
        return None
    tick = 1 / os.sysconf("SC_CLK_TCK")
    # The time of guests, which may follow, is a part of user and nice.
    user, nice, system, idle, waiting, irq, softirq, steal = (int(each) * tick for each in counts[:8])
    busy = user + nice + system + irq + softirq
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Moment(
        busy + idle + waiting + steal, steal, busy, children.ru_utime + children.ru_stime
    )


def between(before: Moment | None, after: Moment | None) -> Json:
    """Percent of the processors' time; nothing where it is unknown."""
    if before is None or after is None or after.total <= before.total:
        return {}
    total = after.total - before.total
    others = (after.busy - before.busy) - (after.children - before.children)
    return {
        "steal_percent": 100 * (after.steal - before.steal) / total,
        "others_percent": 100 * max(others, 0.0) / total,
    }


def excess(percents: Json) -> list[str]:
    """The kinds of noise, of `steal`, `others` and `spread`, that are above their limit."""
    return [
        kind for kind, most in MOST.items() if (percents.get(f"{kind}_percent") or 0.0) > most
    ]
