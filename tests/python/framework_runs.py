# SPDX-License-Identifier: Apache-2.0
"""Runs the examples of training frameworks, alone or under torchrun, on CPUs."""

import sys

from example_programs import EXAMPLES, run
from framework_rows import problems_of


def run_example(framework, output_dir, command, *, ranks, steps, stride, batches=1):
    """Runs examples/torch_<framework>.py, and checks its rank files, also with `cep check`."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", ranks] if ranks > 1 else []
    # If mpi4py is installed, Lightning asks MPI whether mpirun is the launcher. That needs no remote shell.
    environment = ["env", "OMPI_MCA_plm=isolated"]
    options = ["--steps", steps, "--accumulate", batches, "--record-every-n-steps", stride, "--output-dir", output_dir]
    out = run(*environment, sys.executable, *launcher, EXAMPLES / f"torch_{framework}.py", *options, cwd=output_dir)
    assert f"{steps} steps on {ranks} ranks" in out
    recorded = range(0, steps, stride)
    assert problems_of(output_dir, ranks=ranks, steps=recorded, batches=batches) == []
    run(command, "check", output_dir)
