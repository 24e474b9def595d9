"""Contenders that take turns, and what their rounds say.

What one process measured in one round is a turn: an object, or None where it failed. A record
holds a contender's turns on one piece of work: {"rounds": [turn or None, ...], "message": why not}.
Ratios are taken within a round and only then summarised, so that what slows a whole round (a clock,
a neighbour) does not enter them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from processes import Failure, say

Json = dict[str, Any]
Record = Json
ByRound = list[float | None]


def percentile(values: list[float], percent: float) -> float:
    """Between the two nearest ranks, as numpy does it."""
    ordered = sorted(values)
    position = (len(ordered) - 1) * percent / 100
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def median(values: list[float]) -> float:
    return percentile(values, 50)


def spread(values: list[float]) -> Json | None:
    if not values:
        return None
    return {
        "median": median(values),
        "p10": percentile(values, 10),
        "p90": percentile(values, 90),
        "rounds": len(values),
    }


def ratio(slower: ByRound, faster: ByRound) -> Json | None:
    """The times by which the second is faster than the first, in the rounds that both have."""
    return spread(
        [a / b for a, b in zip(slower, faster, strict=False) if a is not None and b is not None]
    )


def new_record(message: str = "") -> Record:
    """With a message: of a contender that cannot take part."""
    return {"rounds": [], "message": message}


def by_round(record: Record | None, key: str = "ms_p50") -> ByRound:
    return [turn and turn[key] for turn in record["rounds"]] if record else []


@dataclass(frozen=True)
class Turn:
    name: str  # of the work and the contender, as it is said while measuring
    record: Record
    measure: Callable[[], Json]


def take_round(turns: list[Turn], number: int, rounds: int) -> None:
    """Everyone once; the next round begins with the next one. Whoever fails once is not asked
    again."""
    first = number % max(len(turns), 1)
    for turn in turns[first:] + turns[:first]:
        taken = None
        said = ""
        if not turn.record["message"]:
            try:
                taken = turn.measure()
                said = f"{taken['ms_p50']:.2f} ms"
            except Failure as failure:
                turn.record["message"] = said = str(failure)
        # Whoever reads the line may end this program: what it says is kept by then.
        turn.record["rounds"].append(taken)
        if said:
            say(f"{turn.name}, round {number + 1} of {rounds}: {said}")


def take_turns(turns: list[Turn], rounds: int) -> None:
    for number in range(rounds):
        take_round(turns, number, rounds)
