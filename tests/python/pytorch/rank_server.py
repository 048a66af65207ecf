# SPDX-License-Identifier: Apache-2.0
"""Starts the ranks of jobs as forks of itself: PyTorch is imported once, not once a rank.

Each line of standard input asks for one job, as JSON: `script`, `arguments`, `outputs` (a folder for `out_<rank>` and
`err_<rank>`) and `environments`, one for each rank. The answer is a line with the exit statuses of the ranks.
"""

import gc
import json
import os
import sys

import torch  # noqa: F401  # for the ranks
import torch._dynamo  # noqa: F401  # DistributedDataParallel imports it, in a second of CPU time
import torch.distributed  # noqa: F401

import cep.torch  # noqa: F401


def redirect(descriptor, path, flags):
    opened = os.open(path, flags, 0o600)
    os.dup2(opened, descriptor)
    os.close(opened)


def become_rank(job, rank):
    redirect(0, os.devnull, os.O_RDONLY)
    for descriptor, name in ((1, "out"), (2, "err")):
        redirect(descriptor, os.path.join(job["outputs"], f"{name}_{rank}"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.environ.clear()
    os.environ.update(job["environments"][rank])
    sys.argv = [job["script"], *job["arguments"]]


def start_ranks(job):
    """The process ids of the ranks; in a rank, None."""
    # A fork has only the thread that made it.
    assert len(os.listdir("/proc/self/task")) == 1, "the imports started a thread"
    processes = []
    for rank in range(len(job["environments"])):
        process = os.fork()
        if process == 0:
            become_rank(job, rank)
            return None
        processes.append(process)
    return processes


def serve():
    """The script that this process is to run, as one of the ranks; None at the end of the requests."""
    for request in iter(sys.stdin.readline, ""):
        job = json.loads(request)
        processes = start_ranks(job)
        if processes is None:
            return job["script"]
        statuses = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]
        print(json.dumps(statuses), flush=True)
    return None


gc.freeze()  # or each rank walks through all of PyTorch's objects when it ends
script = serve()
if script is not None:
    with open(script, encoding="utf-8") as file:
        exec(compile(file.read(), script, "exec"))
