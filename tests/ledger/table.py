#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far the ledger is from the truth: a table of the largest errors by shape of job and piece.

    CEP_COMMAND=build/tools/cep python3 tests/ledger/table.py [--seeds N] [--only SHAPE] [--wrong]

Errors of pieces are shares of the elapsed time of the rank; those of figures are shares of the figure. Of jobs that are
recorded at a stride, the pieces are compared with those of the same job with all of its rows, which ends later.
"""

import argparse
import sys
from collections import defaultdict
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "engine"))
from comparison import compare_jobs
from shapes import JOBS_OF_A_SHAPE, SHAPES, random_jobs
from truth import PIECES, truth_of

FIGURES = ("elapsed", "paid", "mean", "tokens/s", "MFU", "steady")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=JOBS_OF_A_SHAPE)
    parser.add_argument("--only", default="")
    parser.add_argument("--wrong", action="store_true", help="list what is wrong, job by job")
    return parser.parse_args()


def whole_errors(compared):
    """The errors of the shares of a sampled job, against the job with all rows."""
    whole = truth_of(compared.job.whole)
    said = {one["piece"]: one["share"] for one in compared.ledger["pieces"]}
    return {piece: said.get(piece, 0) - whole.share(piece) for piece in PIECES}


def main():
    options = parse()
    shapes = [shape for shape in SHAPES if options.only in shape.__name__]
    worst, counts = defaultdict(lambda: defaultdict(list)), defaultdict(lambda: [0, 0])
    for compared in compare_jobs(random_jobs(shapes, range(options.seeds))):
        shape = compared.name.rsplit("-", 1)[0]
        wrong = compared.wrong()
        counts[shape][0] += 1
        counts[shape][1] += bool(wrong)
        if wrong and options.wrong:
            print(compared.name, *wrong, sep="\n    ")
        if compared.job.damaged:
            continue
        for name, error in compared.figure_errors().items():
            worst[shape][name].append(abs(error))
        for piece, error in (compared.piece_errors() if compared.is_whole else whole_errors(compared)).items():
            worst[shape][piece].append(abs(error))
    show(worst, counts)


def show(worst, counts):
    print("| shape | jobs | wrong | figures: largest error | pieces: largest error (median of jobs) |")
    print("|---|---|---|---|---|")
    for shape, (jobs, wrong) in counts.items():
        figures = max((error for name in FIGURES for error in worst[shape][name]), default=None)
        pieces = ", ".join(
            f"{piece} {max(errors):.3%} ({sorted(errors)[len(errors) // 2]:.3%})"
            for piece in PIECES if max(errors := worst[shape][piece], default=0) >= 5e-6) or "none"
        shown = "sums only" if figures is None else f"{figures:.3%}"
        print(f"| {shape} | {jobs} | {wrong} | {shown} | {'sums only' if figures is None else pieces} |")
    print(f"\n{sum(jobs for jobs, _ in counts.values())} jobs, {sum(wrong for _, wrong in counts.values())} wrong")


if __name__ == "__main__":
    main()
