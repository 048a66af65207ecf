# SPDX-License-Identifier: Apache-2.0
"""Intervals of what benchmarks measure, by resampling."""

import random
import statistics


def interval(values, statistic=statistics.median, draws=2000):
    """A statistic of the values, and its 95 % interval."""
    return interval_of_groups([values], statistic, draws)


def interval_of_groups(groups, statistic, draws=2000):
    """The same of the values of all groups. Those of one group may have in common what those of another have not: so the groups
    are resampled, and the values of each."""
    source = random.Random(0)

    def resample():
        chosen = source.choices(groups, k=len(groups))
        return statistic([value for group in chosen for value in source.choices(group, k=len(group))])

    resampled = sorted(resample() for _ in range(draws))
    whole = statistic([value for group in groups for value in group])
    return whole, resampled[round(0.025 * draws)], resampled[round(0.975 * draws)]
