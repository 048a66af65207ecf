# SPDX-License-Identifier: Apache-2.0
"""Which rank of which run a process is, where the launcher's variables do not say it."""

import json
import subprocess
import sys

import pytest
from conftest import needs_torch

needs_torch()

SPAWNED = """
import torch, torch.distributed as dist

def train(rank, folder):
    dist.init_process_group("gloo", init_method="file://" + folder + "/store", rank=rank, world_size=2)
    with cep.Profiler(folder, record_every_n_steps=1) as prof:
        prof.step(0)
        with prof.region("forward"):
            pass
    dist.barrier()  # one that ends early would close the connections of the other
    dist.destroy_process_group()

if __name__ == "__main__":
    torch.multiprocessing.spawn(train, (sys.argv[1],), nprocs=2)
"""


def test_processes_that_know_their_rank_by_the_process_group_alone(scripts, files):
    scripts.run(SPAWNED)
    runs = [files.typed("run", rank)[0] for rank in range(2)]
    assert [(run["rank"], run["world_size"]) for run in runs] == [(0, 2), (1, 2)]
    assert len({run["run_id"] for run in runs}) == 1


def test_several_processes_without_a_rank_are_told_what_to_set(tmp_path, monkeypatch):
    import cep

    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(cep.OptionError, match="WORLD_SIZE is 2.*set RANK"):
        cep.Profiler(tmp_path)
    assert not list(tmp_path.iterdir())
    cep.Profiler(tmp_path, enable=False)
    with cep.Profiler(tmp_path, rank=1) as profiler:
        assert profiler.rank == 1


# Lightning's own launcher: it starts the script again for rank 1, with LOCAL_RANK and WORLD_SIZE and without RANK.
LIGHTNING = """
import sys, torch
from lightning.pytorch import LightningModule, Trainer

class Module(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
    def training_step(self, batch):
        return self.layer(batch).square().mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

def main(strategy, callbacks):
    loader = torch.utils.data.DataLoader(torch.randn(24, 4), batch_size=2)
    quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    Trainer(accelerator="cpu", devices=2, strategy=strategy, max_steps=5, callbacks=callbacks,
            default_root_dir=sys.argv[1], **quiet).fit(Module(), loader)
"""


def runs_of(files):
    paths = sorted(files.directory.glob("cuda_events_rank_*.jsonl"))
    rows = [[json.loads(line) for line in path.read_text().splitlines()] for path in paths]
    return [next(row for row in found if row.get("type") == "run") for found in rows]


def test_lightning_starts_the_other_ranks(scripts, files):
    pytest.importorskip("lightning")
    scripts.run(
        LIGHTNING
        + """
from cep.integrations.lightning import CepCallback
if __name__ == "__main__":
    main("ddp", [CepCallback(record_every_n_steps=1)])
""",
        timeout=240,
    )
    assert [(run["rank"], run["world_size"]) for run in runs_of(files)] == [(0, 2), (1, 2)]
    for rank in range(2):
        assert [row["step"] for row in files.spans("training_step", rank)] == list(range(5))


@pytest.mark.parametrize("strategy", ["ddp", "ddp_spawn"])
def test_lightning_starts_the_other_ranks_of_one_run_under_cep_run(request, files, command, strategy, monkeypatch):
    pytest.importorskip("lightning")
    if strategy == "ddp_spawn":  # what is spawned imports much of the compiler
        request.getfixturevalue("with_compiler")
    monkeypatch.setenv("CEP_COMMAND", str(command))
    script = files.output_dir / "train.py"
    script.write_text(LIGHTNING + f"if __name__ == '__main__':\n    main({strategy!r}, [])\n")
    launch = [sys.executable, "-m", "cep.run", "-o", files.output_dir, "--every", "1", "--", sys.executable, script]
    ended = subprocess.run([*launch, files.output_dir], capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == 0, ended.stderr
    runs = runs_of(files)
    assert [(run["rank"], run["world_size"]) for run in runs] == [(0, 2), (1, 2)]
    assert len({run["run_id"] for run in runs}) == 1
    for rank in range(2):
        assert files.spans("training_step", rank)
    assert "no longer instrumented" not in ended.stderr and "cep run: the verdict of" in ended.stderr
