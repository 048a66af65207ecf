# SPDX-License-Identifier: Apache-2.0
"""The interval of a change of the mean, and Holm's correction, written down as the papers define them.

Politis and White (2004) with the correction of 2009: the length of circular blocks. Andrews and Monahan (1992): the
prewhitened long-run variance. Kendall (1954): what the coefficient of an autoregression lacks in a short series."""

import math

import numpy as np

MASK = 2**64 - 1
RESAMPLES = 999
NORMAL = 1.959963984540054


def covariances(values, lags):
    centred = np.asarray(values) - np.mean(values)
    return np.array([centred[lag:] @ centred[:len(centred) - lag] for lag in range(lags)]) / len(centred)


def best_block(values):
    n = len(values)
    if n < 4 or np.ptp(values) == 0:
        return 1.0
    quiet = max(5, math.ceil(math.sqrt(math.log10(n))))
    most = min(n - 1, math.ceil(math.sqrt(n)) + quiet)
    r = covariances(values, n)
    loud = np.abs(r) >= 2 * math.sqrt(math.log10(n) / n) * r[0]
    m = next(lag for lag in range(most + 1) if lag == most or not loud[lag + 1:min(lag + quiet, most) + 1].any())
    window = min(2 * max(m, 1), most)
    lags = np.arange(1, window + 1)
    weights = np.where(lags <= window / 2, 1.0, 2 * (1 - lags / window))
    g0 = r[0] + 2 * np.sum(weights * r[lags])
    slope = 2 * np.sum(weights * lags * r[lags])
    if g0 <= 0:
        return 1.0
    longest = math.ceil(min(3 * math.sqrt(n), n / 3))
    return min(max((2 * slope**2 / (4 / 3 * g0**2)) ** (1 / 3) * n ** (1 / 3), 1), longest)


def circular_block_variance(values, block):
    """The variance of the mean of a block that begins anywhere, times its length: from all blocks."""
    centred = np.asarray(values) - np.mean(values)
    around = np.concatenate([centred, centred[:block]])
    sums = np.array([around[i:i + block].sum() for i in range(len(centred))])
    return np.mean(sums**2) / block


def uniform_below(seed):
    """SplitMix64."""
    state = seed

    def draw(end):
        nonlocal state
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
        return ((z ^ z >> 31) >> 32) * end >> 32
    return draw


class MeanBootstrap:
    """The mean of a series without a season, resampled in blocks."""

    def __init__(self, values, seed, block=0):
        values = np.asarray(values, dtype=float)
        n = len(values)
        self.mean = values.mean()
        self.block = min(max(round(block or max(best_block(values), np.cbrt(n))), 1), max(n // 3, 1))
        centred = values - self.mean
        of_blocks = circular_block_variance(values, self.block)
        long_run = max(of_blocks, self.prewhitened(centred))
        unbiased = n / (n - self.block)
        self.variance = long_run * unbiased / n
        lags = np.arange(1, self.block)
        self.freedom = max(n / (1 + 2 * np.sum((1 - lags / self.block) ** 2)) - 1, 1)
        self.correlation = max(long_run / values.var(), 1)
        self.deviations = math.sqrt(long_run / of_blocks * unbiased) * self.resample(values, uniform_below(seed))

    def prewhitened(self, centred):
        n = len(centred)
        r = covariances(centred, 2)
        phi = min(r[1] / r[0] + (1 + 3 * r[1] / r[0]) / n, 0.97)
        if n < 5 or phi <= 0:
            return 0
        return circular_block_variance(centred[1:] - phi * centred[:-1], self.block) / (1 - phi) ** 2

    def resample(self, values, draw):
        n = len(values)
        around = np.concatenate([values, values])
        logs = []
        for _ in range(RESAMPLES):
            draw(1)  # whether a season has one large value more
            total = 0.0
            for at in range(0, n, self.block):
                first = draw(n)
                total += around[first:first + min(self.block, n - at)].sum()
            logs.append(math.log(total / n / self.mean))
        return np.array(logs)


def student_tail(t, freedom, points=200_001):
    """By Simpson's rule over the angle whose tangent is t / √freedom."""
    angles = np.linspace(math.atan(t / math.sqrt(freedom)), math.pi / 2, points)
    heights = np.cos(angles) ** (freedom - 1)
    weights = np.full(points, 2.0)
    weights[1::2] = 4
    weights[[0, -1]] = 1
    area = (angles[1] - angles[0]) / 3 * np.sum(weights * heights)
    return area * math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)


def student_quantile(tail, freedom):
    low, high = 0.0, 1e3
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_tail(middle, freedom, 2001) > tail else (low, middle)
    return high


def compare_means(a, b, block=0):
    """(change, low, high, p) of the mean of B over that of A."""
    a, b = MeanBootstrap(a, 1, block), MeanBootstrap(b, 2, block)
    va, vb = a.variance / a.mean**2, b.variance / b.mean**2
    freedom = (va + vb) ** 2 / (va**2 / a.freedom + vb**2 / b.freedom)
    low, high = np.quantile(b.deviations - a.deviations, [0.025, 0.975])
    log_ratio = math.log(b.mean / a.mean)
    t = student_quantile(0.025, freedom) / NORMAL
    side = -low if log_ratio > 0 else high
    p = 2 * student_tail(abs(log_ratio) / (side / NORMAL), freedom)
    return b.mean / a.mean - 1, math.exp(log_ratio + t * low) - 1, math.exp(log_ratio + t * high) - 1, p


def u_of(a, b):
    return sum(1.0 if y > x else 0.5 if y == x else 0.0 for x in a for y in b)


def holm(p_values):
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    corrected = [0.0] * len(p_values)
    for place, i in enumerate(order):
        corrected[i] = min(1.0, max((len(order) - j) * p_values[order[j]] for j in range(place + 1)))
    return corrected
