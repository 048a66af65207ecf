# SPDX-License-Identifier: Apache-2.0
"""What `cep summarize --json` says of a job, compared with its truth."""

import concurrent.futures
import json
import tempfile
from pathlib import Path

import numpy as np
from both_builds import run_command
from truth import PIECES, truth_of

TOLERANCE = 0.005  # of the elapsed time
PROCESSES = 2


def run_cep(*arguments):
    done = run_command(arguments)
    if done.returncode != 0:
        raise RuntimeError(f"cep {arguments}: status {done.returncode}: {done.stderr.decode()[-2000:]}")
    return done.stdout


def summary_of(folder, *options):
    return json.loads(run_cep("summarize", "--json", *options, folder))


class Comparison:
    """One job: its truth, what the command says, and how far they are apart. Errors are shares of the elapsed time."""

    def __init__(self, job, ledger):
        self.name, self.job, self.ledger = job.name, job, ledger
        self.truth = truth_of(job)
        self.said = {one["rank"]: one for one in ledger["ranks"]}
        self.is_whole = job.stride == 1 and not job.damaged

    def wrong_sums(self):
        """Must be empty for every job."""
        wrong = []
        for rank in self.truth.ranks:
            said = self.said.get(rank.rank)
            if said is None:
                wrong.append(f"rank {rank.rank} is missing")
                continue
            if sum(said["pieces_ns"].values()) != said["elapsed_ns"]:
                wrong.append(f"rank {rank.rank}: the pieces of {said['elapsed_ns']} are {said['pieces_ns']}")
            if said["elapsed_ns"] != rank.elapsed_ns:
                wrong.append(f"rank {rank.rank}: elapsed is {said['elapsed_ns']}, not {rank.elapsed_ns}")
            wrong += [f"rank {rank.rank}: {piece} is {ns}" for piece, ns in said["pieces_ns"].items()
                      if ns <= 0 or piece not in PIECES]
        return wrong

    def figure_errors(self):
        """Relative errors of what follows from the elapsed time alone."""
        run = self.ledger["run"]
        pairs = {"elapsed": (self.ledger["elapsed_ms"], self.truth.elapsed_ms),
                 "steps": (self.ledger["steps"], self.truth.steps),
                 "paid": (run["step_ms"], self.truth.paid_step_ms),
                 "tokens/s": (run["tokens_per_s"], self.truth.tokens_per_s),
                 "MFU": (run["mfu"], self.truth.mfu)}
        if self.is_whole:
            pairs["mean"] = (self.ledger["step_ms"]["mean"], self.truth.mean_step_ms)
            pairs["steady"] = (self.ledger["steady"]["step_ms"], self.truth.steady_step_ms)
        return {name: 9.99 if said is None else said / true - 1 for name, (said, true) in pairs.items()}

    def piece_errors(self):
        """The largest of any rank, by piece; without the pieces that all have right."""
        errors = {}
        for rank in self.truth.ranks:
            said = self.said[rank.rank]["pieces_ns"]
            for piece in PIECES:
                error = (said.get(piece, 0) - rank.pieces[piece]) / rank.elapsed_ns
                if abs(error) > abs(errors.get(piece, 0)):
                    errors[piece] = error
        return errors

    def wrong_totals(self):
        """What is said of all ranks must be the mean and the sum of what is said of each."""
        ledger, wrong = self.ledger, []
        ranks = len(ledger["ranks"])
        if [one["piece"] for one in ledger["pieces"]] != list(PIECES):
            wrong.append("pieces are not in their order")
        for one in ledger["pieces"]:
            ns = sum(rank["pieces_ns"].get(one["piece"], 0) for rank in ledger["ranks"])
            said = (one["ms"], one["gpu_hours"], one["share"] * ledger["elapsed_ms"])
            if not np.allclose(said, (ns / 1e6 / ranks, ns / 3.6e12, ns / 1e6 / ranks), rtol=1e-6, atol=1e-9):
                wrong.append(f"{one['piece']} is {said} and {ns} ns of {ranks} ranks")
        losses = [one["ms"] for one in ledger["losses"]]
        if losses != sorted(losses, reverse=True):
            wrong.append(f"losses are not ordered: {losses}")
        if not np.isclose(ledger["goodput"], ledger["pieces"][0]["share"]):
            wrong.append(f"goodput is {ledger['goodput']}, the share of compute {ledger['pieces'][0]['share']}")
        return wrong

    def phase_errors(self):
        """Shares of the elapsed time."""
        said = {one["name"]: one["ms"] for one in self.ledger["phases"]}
        errors = {}
        for name in {name for rank in self.truth.ranks for name in rank.most}:
            most_ms, least_ms = (sum(getattr(rank, limit).get(name, 0) for rank in self.truth.ranks) * 1e-6
                                 / len(self.truth.ranks) for limit in ("most", "least"))
            least_ms -= self.truth.share("startup") * self.truth.elapsed_ms
            nearest_ms = min(max(said.get(name, 0), least_ms), most_ms)
            errors[name] = (said.get(name, 0) - nearest_ms) / self.truth.elapsed_ms
        return errors

    def wrong(self):
        wrong = self.wrong_sums() + self.wrong_totals()
        if wrong or self.job.damaged:
            return wrong
        wrong += [f"{name} is {error:+.2%} off" for name, error in self.figure_errors().items()
                  if abs(error) > TOLERANCE]
        if self.is_whole:
            wrong += [f"{piece} is {error:+.2%} of elapsed off" for piece, error in self.piece_errors().items()
                      if abs(error) > TOLERANCE]
            wrong += [f"phase {name} is {error:+.2%} of elapsed off" for name, error in self.phase_errors().items()
                      if abs(error) > TOLERANCE]
        return wrong


def compare_jobs(jobs):
    """Comparisons of many jobs, with commands that run while the next jobs are made."""
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(PROCESSES) as commands:
        waiting = [(job, commands.submit(summary_of, job.write(Path(scratch) / job.name))) for job in jobs]
        for job, summary in waiting:
            yield Comparison(job, summary.result()["ledger"])
