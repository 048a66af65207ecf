# SPDX-License-Identifier: Apache-2.0
"""Runs simulated jobs in all layouts of rows, and names each wrong answer.

    CEP_COMMAND=build/tools/cep python3 tests/engine/table.py [--kind TEXT] [--layout NAME] [--wrong] [--seeds N]
    CEP_COMMAND=build/tools/cep python3 tests/engine/table.py --damaged [--kind TEXT] [--wrong]
"""

import argparse
import os
import sys
import tempfile
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
from answers import WORTH_SAYING, ask, wrongs
from damage import JOBS, DamagedJob
from jobs import Simulated, kinds, said_to_be_lost


def judged(command, folder, chosen, layout=None, seeds=1):
    """(job, layout, answer, what is wrong in it)."""
    for kind in chosen:
        for seed in range(seeds):
            simulated = Simulated(kind, 1000 * seed + zlib.crc32(kind.name.encode()) % 1000)
            for one in kind.layouts:
                if layout not in (None, one):
                    continue
                simulated.write(folder / "job", one)
                answer = ask(command, folder / "job", kind.options)
                yield simulated, one, answer, wrongs(simulated, one, answer)


def judged_of_damaged(command, folder, text):
    for name in (name for name in JOBS if text in name):
        job = DamagedJob(name, folder / "job")
        for damage in job.names():
            job.write(damage)
            answer = ask(command, folder / "job")
            yield job.simulated, damage, answer, wrongs(job.simulated, "full", answer)


class Totals:
    def __init__(self):
        self.jobs, self.wrong, self.silent, self.causes, self.errors = 0, 0, 0, Counter(), []

    def add(self, simulated, layout, answer, wrong):
        self.jobs += 1
        self.wrong += bool(wrong)
        self.causes.update({name for name, _ in wrong})
        if answer.saving is not None and not answer.is_bound:
            self.errors.append(abs(answer.exact_saving - 100 * simulated.saving))
        is_silent = answer.saving is None and 100 * simulated.saving >= WORTH_SAYING
        self.silent += is_silent and not wrong and not said_to_be_lost(simulated.kind, layout)

    def text(self):
        errors = self.errors or [0.0]
        return (f"{self.jobs} jobs: {self.jobs - self.wrong} right, {self.wrong} wrong, {self.silent} of the right ones "
                f"say no saving where there is one\nerror of {len(self.errors)} savings: median "
                f"{np.median(errors):.2f}, p95 {np.quantile(errors, 0.95):.2f} points\n"
                + "".join(f"  {name}: {count}\n" for name, count in self.causes.most_common()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", default="")
    parser.add_argument("--layout")
    parser.add_argument("--damaged", action="store_true", help="of the layout full, with rows that are missing or odd")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--wrong", action="store_true", help="only wrong answers")
    parser.add_argument("--most-wrong", type=int, default=0, help="more wrong answers than that are a failure")
    parser.add_argument("--keep", help="folder for the rows of the last job")
    options = parser.parse_args()
    totals, command = Totals(), os.environ["CEP_COMMAND"]
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(options.keep or folder)
        chosen = [kind for kind in kinds() if options.kind in kind.name]
        jobs = judged_of_damaged(command, rows, options.kind) if options.damaged else \
            judged(command, rows, chosen, options.layout, options.seeds)
        for simulated, layout, answer, wrong in jobs:
            totals.add(simulated, layout, answer, wrong)
            said = "–" if answer.saving is None else f"{answer.saving:.1f}{'+' if answer.is_bound else ''}"
            job = f"{simulated.kind.name:33} {layout:13} {100 * simulated.saving:5.1f} % {said:>6} "
            for name, text in wrong:
                print(f"{job} WRONG {name}: {text}")
            if not options.wrong:
                print(job, answer.headline, flush=True)
    print(totals.text(), end="")
    return totals.wrong > options.most_wrong


if __name__ == "__main__":
    sys.exit(main())
