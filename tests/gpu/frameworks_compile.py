# SPDX-License-Identifier: Apache-2.0
"""cep in Lightning, Transformers and Accelerate, with torch.compile on and off: the rows, the graphs, and the weights.

    python3 tests/gpu/frameworks_compile.py [--only lightning] [--backend inductor] [--output-dir FOLDER]

Each line is a process that trains a tiny model of random weights twice, without cep and with it. Right is a line if

- each recorded step has each phase once, inside its training_step, and nothing failed or was lost;
- torch.compile made as many graphs and breaks as without cep, and at least one graph where it is on;
- the weights after the training are equal to the last bit.

Ends with status 1 if a line is wrong, 77 if there is no PyTorch 2. Needs no network. Uses a GPU if there is one. cep must be
importable (an installed wheel, or PYTHONPATH and CEP_LIBRARY).
"""

import argparse
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

from framework_rows import BATCH_PHASES, STEP_PHASES, problems_of, rows_of  # noqa: E402  # from the folder above

STEPS, STRIDE, BATCH, WIDTH = 12, 3, 4, 32
RECORDED = range(0, STEPS, STRIDE)
TIMEOUT_S = 150
RESULT = "result: "


# ---- Trainings. Each returns the model that was trained. `record` is where cep's rows go; None: without cep.


def samples(torch):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(STEPS * BATCH, WIDTH, generator=generator)


def new_net(torch):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU(), torch.nn.Linear(WIDTH, 1)]
    return torch.nn.Sequential(*layers)


def train_lightning(torch, compiled, backend, record, scratch):
    from lightning.pytorch import LightningModule, Trainer

    class Module(LightningModule):
        def __init__(self):
            super().__init__()
            self.net = new_net(torch)

        def training_step(self, batch, batch_index):
            return self.net(batch).square().mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    callbacks = []
    if record is not None:
        from cep.integrations.lightning import CepCallback

        callbacks.append(CepCallback(record_every_n_steps=STRIDE))
    module = Module()
    trainer = Trainer(
        max_steps=STEPS,
        accelerator="gpu" if torch.cuda.is_available() else "cpu",
        devices=1,
        default_root_dir=str(record or scratch),
        callbacks=callbacks,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    loader = torch.utils.data.DataLoader(samples(torch), BATCH)
    trainer.fit(torch.compile(module, backend=backend) if compiled == "whole" else module, loader)
    return module


def train_transformers(torch, compiled, backend, record, scratch):
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

    class Sentences(torch.utils.data.Dataset):
        def __len__(self):
            return STEPS * BATCH

        def __getitem__(self, index):
            tokens = (index + torch.arange(16)) % 64
            return {"input_ids": tokens, "labels": tokens}

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=16,
        attn_implementation="eager",
    )
    model = LlamaForCausalLM(config)
    arguments = TrainingArguments(
        str(record or scratch),
        max_steps=STEPS,
        per_device_train_batch_size=BATCH,
        learning_rate=1e-2,
        seed=0,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(),
        **({"torch_compile": True, "torch_compile_backend": backend} if compiled else {}),
    )
    trainer = Trainer(model, arguments, train_dataset=Sentences())
    if record is not None:
        import cep.integrations.transformers

        cep.integrations.transformers.instrument(trainer, record_every_n_steps=STRIDE)
    trainer.train()
    return model


def train_accelerate(torch, compiled, backend, record, scratch):
    import contextlib

    from accelerate import Accelerator

    dynamo = {"dynamo_backend": backend} if compiled else {}
    accelerator = Accelerator(cpu=not torch.cuda.is_available(), **dynamo)
    net = new_net(torch)
    model, optimizer, loader = accelerator.prepare(
        net, torch.optim.SGD(net.parameters(), lr=0.1), torch.utils.data.DataLoader(samples(torch), BATCH)
    )
    with contextlib.ExitStack() as stack:
        if record is not None:
            import cep.integrations.accelerate

            profiler = stack.enter_context(cep.Profiler(record, record_every_n_steps=STRIDE))
            stack.enter_context(cep.integrations.accelerate.instrument(profiler, accelerator, model, optimizer, loader))
        for batch in loader:
            accelerator.backward(model(batch).square().mean())
            optimizer.step()
            optimizer.zero_grad()
    return net


TRAININGS = {"lightning": train_lightning, "transformers": train_transformers, "accelerate": train_accelerate}
LINES = [(framework, compiled) for framework in TRAININGS for compiled in ("", "whole")]


# ---- A line: two trainings in a process of their own


def trained(framework, compiled, backend, record, scratch):
    """The graphs that torch.compile made, its breaks, and the weights after the training."""
    import torch
    import torch._dynamo

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    model = TRAININGS[framework](torch, compiled, backend, record, scratch)
    counters = torch._dynamo.utils.counters
    graphs = [counters["stats"].get("unique_graphs", 0), sum(counters["graph_break"].values())]
    return graphs, [parameter.detach().cpu().clone() for parameter in model.parameters()]


def rows_in_a_step(record):
    """How many rows each phase has in the second recorded step."""
    rows = [row for row in rows_of(record, 0) if "type" not in row and row["step"] == RECORDED[1]]
    return {name: sum(row["name"] == name for row in rows) for name in (*STEP_PHASES, *BATCH_PHASES)}


def differences(torch, one, other):
    graphs, weights = one
    other_graphs, other_weights = other
    if graphs != other_graphs:
        yield f"{graphs[0]} graphs and {graphs[1]} breaks, not {other_graphs[0]} and {other_graphs[1]}"
    pairs = list(zip(weights, other_weights))
    if len(weights) != len(other_weights) or not all(torch.equal(left, right) for left, right in pairs):
        yield f"other weights, by up to {max(float((left - right).abs().max()) for left, right in pairs):.3g}"


def child(framework, compiled, backend, folder):
    import torch

    torch.use_deterministic_algorithms(True, warn_only=True)
    record, scratch = folder / "with", folder / "without"
    record.mkdir(parents=True)
    plain = trained(framework, compiled, backend, None, scratch)
    with_cep = trained(framework, compiled, backend, record, scratch)
    problems = [f"with cep: {problem}" for problem in differences(torch, with_cep, plain)]
    if problems:
        again = trained(framework, compiled, backend, None, scratch)
        problems += [f"a second training without cep: {problem}" for problem in differences(torch, again, plain)]
    if (with_cep[0][0] > 0) is not bool(compiled):
        problems.append(f"{with_cep[0][0]} graphs with torch.compile {'on' if compiled else 'off'}")
    clock = "gpu" if torch.cuda.is_available() else "host"
    problems += problems_of(record, ranks=1, steps=RECORDED, clock=clock)
    found = {"problems": problems, "plain": plain[0], "with": with_cep[0], "rows": rows_in_a_step(record)}
    print(RESULT + json.dumps(found), flush=True)


def line(framework, compiled, backend, folder):
    """What child() found; a problem alone if it failed."""
    command = [sys.executable, str(Path(__file__).resolve()), "--backend", backend, "--output-dir", str(folder)]
    environment = {
        **os.environ,
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # deterministic matrix products
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "OMPI_MCA_plm": "isolated",  # with mpi4py Lightning asks MPI for a launcher
        "CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0],
    }
    try:
        done = subprocess.run(
            [*command, "--child", framework, compiled],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return {"problems": [f"not done within {TIMEOUT_S} s"]}
    results = [text[len(RESULT):] for text in done.stdout.splitlines() if text.startswith(RESULT)]
    if done.returncode != 0 or not results:
        return {"problems": [f"status {done.returncode}", *done.stdout.splitlines()[-15:]]}
    return json.loads(results[-1])


def version_of(framework):
    try:
        return importlib.metadata.version(framework)
    except importlib.metadata.PackageNotFoundError:
        return None


def has_pytorch_2():
    try:
        import torch
    except ImportError:
        return False
    return int(torch.__version__.split(".")[0]) >= 2


def show(framework, version, compiled, found, seconds):
    graphs = "{} / {}".format(*found["with"]) if "with" in found else "-"
    plain = "{} / {}".format(*found["plain"]) if "plain" in found else "-"
    rows = " ".join(str(count) for count in found.get("rows", {}).values())
    result = "FAIL" if found["problems"] else "PASS"
    name = f"{framework} {version}"
    print(f"{result}  {name:<24} {compiled or 'off':<8} {plain:<9} {graphs:<9} {rows:<13} {seconds:4.0f} s", flush=True)
    for problem in found["problems"]:
        print(f"      ! {problem}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=TRAININGS, action="append")
    parser.add_argument("--backend", default="inductor", help="of torch.compile")
    parser.add_argument("--output-dir", type=Path, help="keeps the files there; must be empty")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(*options.child, options.backend, options.output_dir)
    if not has_pytorch_2():
        print("frameworks_compile.py: skipped: no PyTorch 2", file=sys.stderr)
        return 77
    wrong = 0
    print(f"rows of a step: {' '.join((*STEP_PHASES, *BATCH_PHASES))}")
    print(f"      {'':<24} {'':<8} {'graphs / breaks':<19}")
    print(f"      {'framework':<24} {'compile':<8} {'without':<9} {'with':<9} {'rows':<13} time")
    with tempfile.TemporaryDirectory() as folder:
        folder = options.output_dir or Path(folder)
        for framework, compiled in LINES:
            version = version_of(framework)
            if options.only and framework not in options.only:
                continue
            if version is None:
                print(f"SKIP  {framework}: not installed")
                continue
            begin = time.monotonic()
            found = line(framework, compiled, options.backend, folder / f"{framework}-{compiled or 'off'}")
            show(framework, version, compiled, found, time.monotonic() - begin)
            wrong += bool(found["problems"])
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
