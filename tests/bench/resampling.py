# SPDX-License-Identifier: Apache-2.0
"""Intervals of what benchmarks measure, by resampling."""

import random
import statistics


def interval(values, statistic=statistics.median, draws=2000):
    """A statistic of the values, and its 95 % interval."""
    source = random.Random(0)
    resampled = sorted(statistic(source.choices(values, k=len(values))) for _ in range(draws))
    return statistic(values), resampled[round(0.025 * draws)], resampled[round(0.975 * draws)]
