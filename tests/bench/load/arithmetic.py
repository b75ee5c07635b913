"""Percentiles, medians and ratios of figures from several rounds."""

import math
import statistics
from collections.abc import Iterable, Sequence


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` (0 to 1) of all do not exceed; NaN of none."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def median(values: Iterable[float | None]) -> float:
    """Of those that are there; NaN of none."""
    known = [value for value in values if value is not None and not math.isnan(value)]
    return statistics.median(known) if known else math.nan


def median_ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """The median of the ratios of each round: what disturbed a round disturbed both of its
    figures. Rounds in which one of the two is missing do not count."""
    pairs = zip(above, below, strict=False)
    return median(one / other for one, other in pairs if other and not math.isnan(other))
