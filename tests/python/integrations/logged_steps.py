# SPDX-License-Identifier: Apache-2.0
"""Steps whose metrics are logged, for the tests of cep.integrations.log_metrics()."""

from cep.integrations import MetricsLogger


def record_step(profiler, step, **durations_ms):
    profiler.step(step)
    for name, duration_ms in durations_ms.items():
        profiler.add_span(name, start_ns=0, duration_ns=int(duration_ms * 1e6))


def logged(profiler, logger, *steps):
    """Logs once for each step, and waits until it is done."""
    metrics = MetricsLogger(profiler, logger)
    for index, step in enumerate(steps):
        record_step(profiler, index, forward=1.0)
        assert metrics.log(step)
    assert metrics.close()
    return metrics
