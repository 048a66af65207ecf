# SPDX-License-Identifier: Apache-2.0
"""Large jobs: a million of something, and more steps than a verdict takes."""

import gzip

import numpy as np
import pytest
from array_jobs import write_job
from limits import MAX_INPUT_BYTES, within_limits


@pytest.mark.parametrize("row", [
    '{{"name":"f","rank":{i},"step":1,"duration_ms":1}}\n', '{{"name":"n{i}","rank":0,"step":1,"duration_ms":1}}\n',
    '{{"name":"f","rank":0,"step":{square},"duration_ms":1}}\n',
], ids=["ranks", "names", "steps"])
def test_checking_a_million_of_something_stays_within_the_limits(tmp_path, row):
    path = tmp_path / "many.jsonl.gz"
    path.write_bytes(gzip.compress("".join(row.format(i=i, square=i * i) for i in range(1_000_000)).encode(), 6))
    assert path.stat().st_size < MAX_INPUT_BYTES
    within_limits(tmp_path, "check", "--json", "--lenient", path, status=(0,))


def test_of_many_steps_a_random_part_is_judged_and_sums_are_of_all(cep, tmp_path):
    steps = 140_000
    own = {"forward": 10 * (1 + 0.01 * np.random.default_rng(1).standard_normal((8, steps)))}
    own["forward"][5, 1::2] += 5
    write_job(tmp_path / "job", own, step_spans=False)
    summary = cep.summary("job")
    verdict = summary["verdict"]
    (straggler,) = verdict["stragglers"]
    assert (straggler["rank"], straggler["pattern"]) == (5, "intermittent")
    assert straggler["step_fraction"] == pytest.approx(0.5, abs=0.01)
    assert (verdict["steps_used"], verdict["all_steps"]) == (2**20 // 8, steps)
    slowest = own["forward"].max(axis=0)
    others = np.delete(own["forward"], 5, axis=0).max(axis=0)
    assert verdict["gpu_hours_lost"] == pytest.approx((slowest - others)[1::2].sum() * 8 / 3.6e6, rel=0.02)
    replay = verdict["replay"]
    assert replay["steps"] < replay["all_steps"] == steps
    text = cep("summarize", "job").stdout.decode()
    assert "the verdict is from 131,072 of the 140,000 steps, chosen by a hash of their number" in text
    assert f"what causes cost is from {replay['steps']:,} of the steps, of all lengths" in text


@pytest.mark.parametrize(("share", "excess_ms"), [(0.002, 200), (0.1, 5)], ids=["rare and long", "frequent and short"])
def test_of_a_large_job_some_steps_are_priced_as_if_all_were(cep, tmp_path, share, excess_ms):
    ranks, steps = 8, 20_000
    random = np.random.default_rng(3)
    own = {"forward": 10 * (1 + 0.01 * random.standard_normal((ranks, steps)))}
    without_ms = own["forward"].max(axis=0).mean()
    own["forward"][5] += excess_ms * (random.random(steps) < share)
    step_ms = write_job(tmp_path / "job", own).mean() + 0.1
    verdict = cep.summary("job")["verdict"]
    assert verdict["replay"]["steps"] < verdict["replay"]["all_steps"] == steps
    assert verdict["replay"]["observed_ms"] == pytest.approx(step_ms, rel=0.002)
    saved_ms = own["forward"].max(axis=0).mean() - without_ms
    assert 1 - 1 / verdict["job_slowdown"] == pytest.approx(saved_ms / step_ms, abs=0.002)


def test_what_is_between_steps_counts_where_some_steps_are_replayed(cep, tmp_path):
    ranks, steps = 4, 60_000
    own = {"forward": 10 * (1 + 0.01 * np.random.default_rng(2).standard_normal((ranks, steps)))}
    step_ms = write_job(tmp_path / "job", own, before=np.full((ranks, steps), 3.0), step_spans="late")
    replay = cep.summary("job")["verdict"]["replay"]
    assert replay["steps"] < replay["all_steps"] == steps
    assert replay["observed_ms"] == pytest.approx(step_ms.mean() + 0.1, rel=0.005)
