# SPDX-License-Identifier: Apache-2.0
"""What the command says of a job, and whether that is right."""

import json
import re
import subprocess
from dataclasses import dataclass, field

SAVING = re.compile(r"steps would take (up to |about )?([\d.]+) % less time")
MOST_ERROR = 1.0  # points, of a saving
BOUND = 5.0  # points, by which a bound may exceed the truth
WORTH_SAYING = 3.0  # per cent


@dataclass
class Answer:
    headline: str
    evidence: list
    ranks: list  # that are named as slow
    saving: float = None  # per cent, as the headline rounds it
    exact_saving: float = None  # per cent
    is_bound: bool = False
    changes: int = 0
    abstained: bool = False
    verdict: dict = field(default_factory=dict)


def ask(command, folder, options=()):
    done = subprocess.run([command, "summarize", "--json", *options, str(folder)], capture_output=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr[-1000:])
    return read_answer(json.loads(done.stdout)["verdict"])


def read_answer(verdict):
    evidence = verdict["evidence"] if isinstance(verdict["evidence"], list) else [verdict["evidence"]]
    ranks = {one["rank"] for one in verdict["stragglers"]}
    for group in verdict["groups"]:
        ranks |= set(group["slow_ranks"])
    if verdict.get("late_rank"):
        ranks.add(verdict["late_rank"]["rank"])
    named = re.match(r"(?:Ranks?|The link of ranks?) ([\d–, and]+)", verdict["headline"])
    if named and " waits " not in verdict["headline"]:
        for part in re.findall(r"(\d+)(?:–(\d+))?", named[1]):
            ranks |= set(range(int(part[0]), int(part[1] or part[0]) + 1))
    answer = Answer(verdict["headline"], evidence, sorted(ranks), changes=len(verdict["changes"]),
                    abstained=verdict["abstained"], verdict=verdict)
    if found := SAVING.search(verdict["headline"]):
        answer.saving, answer.is_bound = float(found[2]), bool(found[1])
        answer.exact_saving = 100 * (1 - 1 / verdict["job_slowdown"])
    return answer


def wrongs(simulated, layout, answer):
    """What is wrong in the answer, as (name, text); [] if nothing is. What it does not say is no wrong answer."""
    kind, truth = simulated.kind, 100 * simulated.saving
    found = []
    innocent = [rank for rank in answer.ranks if rank not in kind.named]
    if innocent:
        found.append(("innocent blamed", f"ranks {innocent}"))
    if answer.saving is not None:
        error = answer.saving - truth
        is_right = -MOST_ERROR <= error <= BOUND if answer.is_bound else abs(error) <= MOST_ERROR
        if not is_right:
            found.append(("wrong saving", f"{answer.saving:.1f} for {truth:.1f} %{' (bound)' if answer.is_bound else ''}"))
    if kind.fault.kind == "pauses" and (said := re.search(r"pauses now and then, for ([\d.]+) ms", answer.headline)):
        if not 0.5 * kind.fault.ms <= float(said[1]) <= 1.5 * kind.fault.ms:
            found.append(("wrong pause", f"{said[1]} ms for {kind.fault.ms}"))
    is_denial = answer.headline.startswith("No straggler") and ". But " not in answer.headline
    if is_denial and truth >= WORTH_SAYING and not is_unseen(simulated, layout):
        found.append(("denied", f"{truth:.1f} % are lost"))
    if answer.changes and kind.fault.kind != "slower" and kind.fault.first == 0:
        found.append(("change of nothing", f"{answer.changes}"))
    found += contradictions(answer)
    return found


def is_unseen(simulated, layout):
    """Whether rows cannot show the fault: a slow rank of which no row exists must not be denied all the same."""
    return simulated.kind.fault.kind == "every" and layout == "sampled"


def contradictions(answer):
    found = []
    if answer.saving is not None and abs(answer.saving - answer.exact_saving) > (0.5 if answer.saving >= 10 else 0.05) + 1e-9:
        found.append(("two savings", f"{answer.saving} in the headline, {answer.exact_saving} by job_slowdown"))
    savings = {float(text) for line in [answer.headline, *answer.evidence]
               for text in re.findall(r"(?:out (?:it|them|these|the difference|that)|vided|spread evenly), "
                                      r"(?:steps would|they) take (?:up to |about )?([\d.]+) % less", line)}
    costly = [line for line in answer.evidence if re.search(r"(are|is) slow.*less time", line)]
    if answer.headline.startswith("No straggler") and costly:
        found.append(("contradiction", "no straggler above: " + costly[0][:90]))
    if any("cannot be inside" in line for line in [answer.headline, *answer.evidence]):
        found.append(("contradiction", "cannot be inside"))
    for line in answer.evidence:
        if match := re.search(r"takes ([\d.]+) (\S+) instead of ([\d.]+) .*most of it in .* \(\+?([\d.]+) ms\)", line):
            change = abs(float(match[1]) - float(match[3]))
            if not 0.5 * change <= float(match[4]) <= 1.5 * change:
                found.append(("contradiction", line[:120]))
    if answer.saving is not None and any(abs(answer.saving - one) > 2 for one in savings) and \
            not answer.headline.startswith("Pipeline"):
        found.append(("two savings", f"{sorted(savings)}"))
    return found
