# SPDX-License-Identifier: Apache-2.0
"""What `cep run` costs trainers that know nothing of cep, by turns.

    python3 cep_run.py                        # all trainers that can be imported, on the GPU if there is one
    python3 cep_run.py --trainers gan --seconds 60
    python3 cep_run.py --against ../old/bindings/python --against-binding old/_native.abi3.so   # old and new by turns

Each arm is a process of its own that trains all the time and stops before each block of steps, until it is its turn: so
only one arm runs at a time, and a block of one arm is a fraction of a second from the blocks that it is compared with. The
arms are the trainer alone, twice (their difference is the noise), and under `cep run` with no step recorded but the first,
every 10th, every 2nd and every step. A value is the mean of the middle half of all rounds' differences to the trainer alone, in µs a
step, with the 95 % interval of 2,000 resamplings; and the difference of the best tenths, which a busy machine moves least.

Processes differ by more than cep costs. So of the arm of every 2nd step there is a second value: what a recorded step takes
longer than its two neighbours in the same process, by the time from batch to batch.

    gan           two DDP models, two optimizers, GradScaler, clipping, an average of the weights
    transformer   DDP, four micro-batches with no_sync(), activation checkpointing
    lightning     a Trainer of Lightning
    transformers  a Trainer of Transformers, of a small GPT-2
"""

import argparse
import contextlib
import copy
import importlib.util
import os
import random
import select
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
OFF, AGAIN, NEVER, TENTH, SECOND, EVERY = (
    "alone", "alone again", "no step recorded", "every 10th step", "every 2nd step", "every step"
)
STRIDES = {OFF: None, AGAIN: None, NEVER: 10**9, TENTH: 10, SECOND: 2, EVERY: 1}


# ---- In the process of an arm

# Without a GPU, the processor time of the trainer's thread, which other programs disturb less.
clock = time.perf_counter if DEVICE.type == "cuda" else time.thread_time


class Turns(torch.utils.data.IterableDataset):
    """Batches without end. Before each block it says how long the last one took, and waits for its turn."""

    def __init__(self, folder, batch, batches_per_block):
        self.folder, self.batch, self.batches_per_block = folder, batch, batches_per_block

    def __iter__(self):
        with open(self.folder / "go") as go, open(self.folder / "done", "w") as done:
            while go.readline():
                began, times = clock(), []
                for _ in range(self.batches_per_block):
                    times.append(clock())
                    yield self.batch
                if DEVICE.type == "cuda":
                    torch.cuda.synchronize()
                seconds = clock() - began
                with open(self.folder / "times", "a") as file:
                    print(*times, file=file)
                print(seconds, file=done, flush=True)


def loader_of(folder, batch, batches_per_block):
    return torch.utils.data.DataLoader(Turns(folder, batch, batches_per_block), batch_size=None)


def layers(width, count):
    return torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.GELU()) for _ in range(count)))


def in_ddp(model):
    if not torch.distributed.is_initialized():
        store = f"file://{tempfile.mkdtemp()}/store"
        torch.distributed.init_process_group("nccl" if DEVICE.type == "cuda" else "gloo", store, rank=0, world_size=1)
    return torch.nn.parallel.DistributedDataParallel(model.to(DEVICE))


def update(model, optimizer, scaler, loss):
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)


def train_gan(folder, steps):
    generator, critic = in_ddp(layers(64, 12)), in_ddp(layers(64, 12))
    average = copy.deepcopy(generator.module)
    optimizers = [torch.optim.Adam(model.parameters(), 1e-4) for model in (generator, critic)]
    scaler = torch.amp.GradScaler(DEVICE.type, enabled=DEVICE.type == "cuda")
    for real in loader_of(folder, torch.randn(8, 64), steps):
        real = real.to(DEVICE, non_blocking=True)
        made = generator(torch.randn(8, 64, device=DEVICE))
        update(critic, optimizers[1], scaler, critic(torch.cat((made.detach(), real))).mean())
        update(generator, optimizers[0], scaler, -critic(made).mean())
        scaler.update()
        with torch.no_grad():
            for mean, weight in zip(average.parameters(), generator.module.parameters()):
                mean.lerp_(weight, 0.01)


class Checkpointed(torch.nn.Module):
    def __init__(self, count):
        super().__init__()
        self.blocks = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True) for _ in range(count)
        )

    def forward(self, batch):
        for block in self.blocks:
            batch = torch.utils.checkpoint.checkpoint(block, batch, use_reentrant=False)
        return batch


def train_transformer(folder, steps, batches=4):
    model = in_ddp(Checkpointed(4))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    for number, batch in enumerate(loader_of(folder, torch.randn(2, 16, 64), steps * batches), start=1):
        is_last = number % batches == 0
        with contextlib.nullcontext() if is_last else model.no_sync():
            model(batch.to(DEVICE)).square().mean().backward()
        if is_last:
            optimizer.step()
            optimizer.zero_grad()


def train_lightning(folder, steps):
    from lightning.pytorch import LightningModule, Trainer

    class Module(LightningModule):
        def __init__(self):
            super().__init__()
            self.layers = layers(64, 16)

        def training_step(self, batch):
            return self.layers(batch).square().mean()

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), 1e-4)

    quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    Trainer(accelerator=DEVICE.type.replace("cuda", "gpu"), devices=1, max_epochs=1, default_root_dir=folder, **quiet).fit(
        Module(), loader_of(folder, torch.randn(8, 64), steps)
    )


def train_transformers(folder, steps):
    import transformers

    shape = dict(vocab_size=64, n_positions=16, n_embd=64, n_layer=3, n_head=4)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape))
    tokens = torch.randint(0, 64, (16,))
    arguments = transformers.TrainingArguments(
        str(folder), max_steps=10**7, per_device_train_batch_size=1, report_to=[], disable_tqdm=True, save_strategy="no",
        logging_strategy="no", use_cpu=DEVICE.type == "cpu",
    )
    example = {"input_ids": tokens, "labels": tokens}
    transformers.Trainer(model, arguments, train_dataset=Turns(folder, example, steps)).train()


TRAINERS = {
    "gan": train_gan,
    "transformer": train_transformer,
    "lightning": train_lightning,
    "transformers": train_transformers,
}


# ---- By turns


class Arm:
    """A process that trains, a block of steps at a time."""

    def __init__(self, trainer, stride, steps, environment):
        self.folder = Path(tempfile.mkdtemp(prefix="cep-bench-"))
        os.mkfifo(self.folder / "go")
        os.mkfifo(self.folder / "done")
        command = [sys.executable, __file__, "--train", trainer, "--folder", str(self.folder), "--steps", str(steps)]
        if stride is not None:
            options = ["--no-summary", "-o", str(self.folder), "--every", str(stride)]
            command = [sys.executable, "-m", "cep.run", *options, "--", *command]
        self.log = open(self.folder / "log", "w+")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, env={**os.environ, **environment})
        # For both directions: so opening them does not wait for the other end, which may never come.
        self.go, self.done = (os.open(self.folder / name, os.O_RDWR) for name in ("go", "done"))

    def block_s(self):
        os.write(self.go, b"go\n")
        while not select.select([self.done], [], [], 1)[0]:
            if self.process.poll() is not None:
                self.log.seek(0)
                raise SystemExit(f"{self.process.args} ended:\n{self.log.read()[-3000:]}")
        return float(os.read(self.done, 100))

    def recorded_us(self, steps):
        """What each recorded step took longer than the mean of the two beside it, where every second one is recorded."""
        added = []
        for line in (self.folder / "times").read_text().splitlines()[3:]:
            times = [float(word) for word in line.split()]
            begins = times[:: len(times) // steps]
            took = [1e6 * (end - begin) for begin, end in zip(begins, begins[1:])][: steps - 2]
            added += [
                (1 - 2 * (index % 2)) * (one - (before + after) / 2)
                for index, (before, one, after) in enumerate(zip(took, took[1:], took[2:]))
            ]
        # Which of the two kinds are recorded depends on how far ahead the trainer fetches: the longer ones are.
        return added if middle_mean(added) > 0 else [-one for one in added]

    def end(self):
        self.process.terminate()  # `cep run` passes it on
        self.process.wait()


def middle_mean(values):
    ordered = sorted(values)
    quarter = len(ordered) // 4
    return statistics.fmean(ordered[quarter : len(ordered) - quarter])


def tenth(values):
    return statistics.quantiles(values, n=10)[0]


def interval(values):
    means = sorted(middle_mean(random.choices(values, k=len(values))) for _ in range(2000))
    return means[50], means[1949]


def arms_of(trainer, options):
    arms = {name: Arm(trainer, stride, options.steps, {}) for name, stride in STRIDES.items()}
    if options.against:
        old = {"PYTHONPATH": options.against, "CEP_BINDING": options.against_binding}
        for name in (NEVER, TENTH, EVERY):
            arms[f"{name}, old"] = Arm(trainer, STRIDES[name], options.steps, old)
    return arms


def measure(trainer, options):
    arms = arms_of(trainer, options)
    try:
        for arm in arms.values():
            for _ in range(3):
                arm.block_s()
        began, rounds = time.monotonic(), []
        while time.monotonic() - began < options.seconds or len(rounds) < 8:
            order = random.sample(list(arms), len(arms))
            rounds.append({name: arms[name].block_s() / options.steps * 1e6 for name in order})
    finally:
        for arm in arms.values():
            arm.end()
    alone_us = middle_mean([one[OFF] for one in rounds])
    recorded = arms[SECOND].recorded_us(options.steps)
    print(f"{trainer}: {alone_us:,.0f} µs a step on {DEVICE.type}, {len(rounds)} rounds of {options.steps} steps")
    for name in sorted(arms, key=lambda name: name.partition(",")[0]):
        if name != OFF:
            added_us = [one[name] - one[OFF] for one in rounds]
            low, high = interval(added_us)
            best_us = tenth([one[name] for one in rounds]) - tenth([one[OFF] for one in rounds])
            share = 100 * middle_mean(added_us) / alone_us
            print(f"    {name:21} {middle_mean(added_us):8.1f} µs a step [{low:.1f}, {high:.1f}]   {share:6.2f} %   best {best_us:.1f}", flush=True)
    low, high = interval(recorded)
    print(f"    {'a recorded step':21} {middle_mean(recorded):8.1f} µs longer than its neighbours [{low:.1f}, {high:.1f}]", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trainers", nargs="+", choices=tuple(TRAINERS), default=list(TRAINERS))
    parser.add_argument("--seconds", type=float, default=60, help="for each trainer, without its start")
    parser.add_argument("--steps", type=int, default=50, help="in a block")
    parser.add_argument("--against", help="the folder of another cep package, whose arms stand beside these")
    parser.add_argument("--against-binding", default="ctypes", help="its extension module")
    parser.add_argument("--train", choices=tuple(TRAINERS), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.train:
        torch.manual_seed(0)
        TRAINERS[options.train](options.folder, options.steps)
        return
    for trainer in options.trainers:
        if trainer in ("lightning", "transformers") and importlib.util.find_spec(trainer) is None:
            print(f"{trainer}: is not installed")
        else:
            measure(trainer, options)


if __name__ == "__main__":
    main()
