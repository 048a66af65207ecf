# SPDX-License-Identifier: Apache-2.0
"""Mann and Whitney's test and Holm's correction, written down as they are defined."""

import itertools
import math

import numpy as np


def u_of(a, b):
    return sum(1.0 if y > x else 0.5 if y == x else 0.0 for x in a for y in b)


def exact_p(a, b):
    """Over all ways to call len(a) of the values A: how many are at least as far from the middle."""
    values = [*a, *b]
    middle = len(a) * len(b) / 2
    distance = abs(u_of(a, b) - middle)
    count = extreme = 0
    for chosen in itertools.combinations(range(len(values)), len(a)):
        of_a = [values[i] for i in chosen]
        of_b = [values[i] for i in range(len(values)) if i not in chosen]
        extreme += abs(u_of(of_a, of_b) - middle) >= distance - 1e-9
        count += 1
    return extreme / count


def approximate_p(a, b):
    n, m, size = len(a), len(b), len(a) + len(b)
    ties = sum(c**3 - c for c in np.unique([*a, *b], return_counts=True)[1])
    variance = n * m / 12 * (size + 1 - ties / (size * (size - 1)))
    z = max(0.0, abs(u_of(a, b) - n * m / 2) - 0.5) / math.sqrt(variance)
    return math.erfc(z / math.sqrt(2))


def holm(p_values):
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    corrected = [0.0] * len(p_values)
    for place, i in enumerate(order):
        corrected[i] = min(1.0, max((len(order) - j) * p_values[order[j]] for j in range(place + 1)))
    return corrected
