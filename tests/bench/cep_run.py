# SPDX-License-Identifier: Apache-2.0
"""What `cep run` costs trainers that know nothing of cep: on steps that it does not record, and on those that it does.

    python3 cep_run.py                          # all trainers that can be imported, on the GPU if there is one
    python3 cep_run.py --trainers gan --rounds 30
    python3 cep_run.py --ranks 2                # torchrun: NCCL on GPUs, else gloo
    python3 cep_run.py --at-once 6              # trainings together, one GPU each in turn: more rounds in the same time
    python3 cep_run.py --cold                   # with other work between two steps, not timed: nothing is in the caches
    python3 cep_run.py --instructions           # instructions in the place of time, by valgrind: they vary far less

Each trainer runs under `cep run`, every 10th step recorded, as one process (or one for each rank): processes differ by more
than cep costs. In turns of 30 steps it trains without cep, whose replacements and hooks in PyTorch are taken out for so long,
and with it. So each turn is a fraction of a second from the two that it is compared with. Steps are timed from batch to batch:

    not recorded     the median of such steps in a turn with cep, less the mean of those in the two turns beside it
    recorded         the four steps round a recorded one (hooks come before it and go after it), less the mean of the four before
                     and the four behind these
    every 10th step  the first, and a tenth of the second, as a share of a step of 5 ms

Each by three clocks: elapsed time, the processor time of the trainer's thread, which other programs disturb less, and that of
the process: of all its threads, of which one runs the backward if there is a GPU. A value is the median of the differences; the
95 % interval is of 2,000 resamplings of the trainings, and of the rounds of each. With --null the turns do not differ, so "not
recorded" is what the benchmark makes of nothing.

With --instructions the trainer runs under callgrind, some 50 times slower, and needs few rounds. Then the cost is
that of the trainer's thread, in thousands of instructions: on a processor of today, a microsecond is 2 to 5 of them.

    gan           two DDP models, two optimizers, GradScaler, clipping, an average of the weights
    transformer   DDP, four micro-batches with no_sync(), activation checkpointing
    lightning     a Trainer of Lightning
    transformers  a Trainer of Transformers, of a small GPT-2
"""

import argparse
import contextlib
import copy
import gc
import importlib.util
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from resampling import interval_of_groups

EVERY = 10
TURN = 30  # steps; a multiple of EVERY
MARGIN = 6  # steps at each end of a turn that are not compared
CLOCKS = {"elapsed": time.perf_counter, "trainer's thread": time.thread_time, "process": time.process_time}
RANK, LOCAL_RANK = (int(os.environ.get(name, 0)) for name in ("RANK", "LOCAL_RANK"))
RANKS = int(os.environ.get("WORLD_SIZE", 1))
DEVICE = torch.device("cuda", LOCAL_RANK) if torch.cuda.is_available() else torch.device("cpu")


# ---- In the trainer's process


def is_ceps(thing):
    modules = type(getattr(thing, "__self__", thing)).__module__, getattr(thing, "__module__", None) or ""
    return any(module.split(".")[0] == "cep" for module in modules)


class Cep:
    """What `cep run` has put into this process. It can be taken out, and put back, between two steps."""

    def __init__(self, trainer):
        waits = torch.utils.data.dataloader._BaseDataLoaderIter
        self.classes = [(waits, "__next__", waits.__next__, waits.__next__.__wrapped__)]
        self.classes += [(torch.Tensor, name, found, None) for name, found in vars(torch.Tensor).items() if is_ceps(found)]
        optimizers = [vars(found) for found in gc.get_objects() if issubclass(type(found), torch.optim.Optimizer)]
        names = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
        # Once each: frameworks' wrappers have those of the optimizer in them, or none.
        self.hooks = list({id(one[name]): one[name] for one in optimizers for name in names if name in one}.values())
        self.taken = []
        self.callbacks = trainer.callbacks if trainer else []  # of Lightning's Trainer
        self.all_callbacks = list(self.callbacks)
        self.actions = vars(trainer.profiler) if trainer else {}
        self.ceps_actions = {name: action for name, action in self.actions.items() if is_ceps(action)}

    def take_out(self):
        for owner, name, _, own in self.classes:
            delattr(owner, name) if own is None else setattr(owner, name, own)
        self.taken = [{key: hook for key, hook in hooks.items() if is_ceps(hook)} for hooks in self.hooks]
        for hooks, taken in zip(self.hooks, self.taken):
            for key in taken:
                del hooks[key]
        self.callbacks[:] = [callback for callback in self.callbacks if not is_ceps(callback)]
        for name in self.ceps_actions:
            del self.actions[name]

    def put_back(self):
        for owner, name, ceps, _ in self.classes:
            setattr(owner, name, ceps)
        for hooks, taken in zip(self.hooks, self.taken):
            hooks.update(taken)
        self.callbacks[:] = self.all_callbacks
        self.actions.update(self.ceps_actions)


class OtherWork:
    """What a large trainer does between two uses of the same code and data: 64 MiB of data, and code of Python's own."""

    def __init__(self):
        self.data = torch.zeros(16 << 20)
        self.texts = [path.read_text() for path in sorted(Path(json.__file__).parent.glob("*.py"))]

    def __call__(self):
        self.data.add_(1)
        for text in self.texts:
            compile(text, "text", "exec")
            json.loads(json.dumps(re.findall(r"[a-z_]+", text)))


class Batches(torch.utils.data.IterableDataset):
    """The same batch again and again. Before the first of each step it notes the time, and takes turns."""

    def __init__(self, options, batch, batches_per_step=1):
        self.options, self.batch, self.batches_per_step = options, batch, batches_per_step
        self.trainer = None  # Lightning's
        self.between = OtherWork() if options.cold else lambda: None
        self.untimed = [0.0] * len(CLOCKS)  # by each clock
        self.steps = []  # for each: what the clocks say at its begin, and whether it is recorded
        self.begins = []  # of turns, by index; without cep first

    def __iter__(self):
        # Twice what all turns take: where no step is recorded, the training ends, and says so.
        for number in range(2 * (self.options.warm_up + TURN * (2 * self.options.rounds + 2)) * self.batches_per_step):
            if number % self.batches_per_step == 0:
                self._begin_step()
            yield self.batch
        raise RuntimeError(f"{len(self.begins)} turns in {len(self.steps)} steps")

    def _begin_step(self):
        from cep._life import open_profilers

        if self.options.instructions:
            self._count_instructions()
        is_recorded = any(profiler.recording for profiler in open_profilers)
        ends = [clock() for clock in CLOCKS.values()]
        self.between()
        begins = [clock() for clock in CLOCKS.values()]
        self.untimed = [sum(each) - end for *each, end in zip(self.untimed, begins, ends)]
        self.steps.append((*(begin - untimed for begin, untimed in zip(begins, self.untimed)), is_recorded))
        if not self.begins:
            # Between two recorded steps, so that no turn begins or ends beside one.
            if len(self.steps) < self.options.warm_up or not self.steps[-EVERY // 2][-1]:
                return
            self.cep = Cep(self.trainer)
        elif len(self.steps) - 1 < self.begins[-1] + TURN:
            return
        self.begins.append(len(self.steps) - 1)
        if len(self.begins) > 2 * self.options.rounds + 1:
            self._end()
        if not self.options.null:
            self.cep.take_out() if len(self.begins) % 2 else self.cep.put_back()

    def _count_instructions(self):
        if len(self.steps) == max(0, self.options.warm_up - 2 * EVERY):
            subprocess.run(["callgrind_control", "--instr=on", str(os.getpid())], check=True, stdout=subprocess.DEVNULL)
        os.getpgid(0)  # callgrind begins a new file, and sees this only while it counts

    def _end(self):
        (self.options.folder / f"times_{RANK}.json").write_text(json.dumps([self.steps, self.begins]))
        if RANKS > 1:
            torch.distributed.barrier()
        sys.exit()


def loader_of(batches):
    return torch.utils.data.DataLoader(batches, batch_size=None)


def layers(width, count):
    return torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.GELU()) for _ in range(count)))


def in_ddp(model):
    if not torch.distributed.is_initialized():
        store = f"file://{tempfile.mkdtemp()}/store" if RANKS == 1 else "env://"
        backend = "nccl" if DEVICE.type == "cuda" else "gloo"
        torch.distributed.init_process_group(backend, store, rank=RANK, world_size=RANKS)
    return torch.nn.parallel.DistributedDataParallel(model.to(DEVICE))


def update(model, optimizer, scaler, loss):
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)


def train_gan(options):
    generator, critic = in_ddp(layers(64, 12)), in_ddp(layers(64, 12))
    average = copy.deepcopy(generator.module)
    optimizers = [torch.optim.Adam(model.parameters(), 1e-4) for model in (generator, critic)]
    scaler = torch.amp.GradScaler(DEVICE.type, enabled=DEVICE.type == "cuda")
    for real in loader_of(Batches(options, torch.randn(8, 64))):
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


def train_transformer(options, batches=4):
    model = in_ddp(Checkpointed(4))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    for number, batch in enumerate(loader_of(Batches(options, torch.randn(2, 16, 64), batches)), start=1):
        is_last = number % batches == 0
        with contextlib.nullcontext() if is_last else model.no_sync():
            model(batch.to(DEVICE)).square().mean().backward()
        if is_last:
            optimizer.step()
            optimizer.zero_grad()


def train_lightning(options):
    from lightning.pytorch import LightningModule, Trainer

    class Module(LightningModule):
        def __init__(self):
            super().__init__()
            self.layers = layers(64, 16)

        def training_step(self, batch):
            return self.layers(batch).square().mean()

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), 1e-4)

    batches = Batches(options, torch.randn(8, 64))
    quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    if RANKS > 1:
        quiet["strategy"] = "ddp"
    accelerator = DEVICE.type.replace("cuda", "gpu")
    trainer = Trainer(accelerator=accelerator, devices=RANKS, max_epochs=1, default_root_dir=options.folder, **quiet)
    batches.trainer = trainer
    trainer.fit(Module(), loader_of(batches))


def train_transformers(options):
    import transformers

    shape = dict(vocab_size=64, n_positions=16, n_embd=64, n_layer=3, n_head=4)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape))
    tokens = torch.randint(0, 64, (16,))
    arguments = transformers.TrainingArguments(
        str(options.folder), max_steps=10**7, per_device_train_batch_size=1, report_to=[], disable_tqdm=True, save_strategy="no",
        logging_strategy="no", use_cpu=DEVICE.type == "cpu", accelerator_config={"dispatch_batches": False},
        ddp_find_unused_parameters=False,
    )
    example = {"input_ids": tokens, "labels": tokens}
    # Each rank reads the batches of all, and takes its own.
    transformers.Trainer(model, arguments, train_dataset=Batches(options, example, RANKS)).train()


TRAINERS = {
    "gan": train_gan,
    "transformer": train_transformer,
    "lightning": train_lightning,
    "transformers": train_transformers,
}


# ---- What it comes to


def durations_us(steps, clock):
    return [1e6 * (after[clock] - before[clock]) for before, after in zip(steps, steps[1:])]


def with_instructions(steps, folder):
    """The steps, with 10⁹ instructions of the trainer's thread in the place of seconds: none before they were counted."""
    files = sorted(folder.glob("instructions.*-01"), key=lambda path: int(path.suffixes[0][1:-3]))
    counts = [int(re.search(r"^totals: (\d+)", path.read_text(), re.MULTILINE)[1]) for path in files]
    counted = [0] * (len(steps) - len(counts)) + list(itertools.accumulate(counts))
    return [(count / 1e9, is_recorded) for count, (*_, is_recorded) in zip(counted, steps)]


class Round:
    """A turn with cep, between two without."""

    def __init__(self, before, turn, after, recorded):
        windows = [sum(turn[index - 1 : index + 3]) for index in range(len(turn))]
        self.recorded_us = [windows[at] - (windows[at - 4] + windows[at + 4]) / 2 for at in recorded]
        near = {at + offset for at in recorded for offset in (-1, 0, 1, 2)}
        others = [turn[at] for at in range(MARGIN, TURN - MARGIN) if at not in near]
        alone = [statistics.median(one[MARGIN : TURN - MARGIN]) for one in (before, after)]
        self.alone_us = statistics.fmean(alone)
        self.not_recorded_us = statistics.median(others) - self.alone_us


def rounds_of(steps, begins, clock):
    took_us = durations_us(steps, clock)
    turns = [took_us[begin : begin + TURN] for begin in begins[:-1]]
    return [
        Round(*turns[at - 1 : at + 2], [index for index in range(MARGIN, TURN - MARGIN) if steps[begins[at] + index][-1]])
        for at in range(1, len(turns) - 1, 2)
    ]


def not_recorded_us(rounds):
    return statistics.median(one.not_recorded_us for one in rounds)


def recorded_us(rounds):
    return statistics.median([value for one in rounds for value in one.recorded_us])


def share_of_5_ms(rounds):
    return (not_recorded_us(rounds) + recorded_us(rounds) / EVERY) / 50


def with_interval(value_of, trainings):
    value, low, high = interval_of_groups(trainings, value_of)
    return f"{value:8.2f} [{low:.2f}, {high:.2f}]"


def collectives_in_a_step(folder):
    """In the recorded steps of rank 0."""
    text = (folder / "cuda_event_profiler" / "cuda_events_rank_0.jsonl").read_text()
    rows = [row for row in map(json.loads, text.splitlines()) if "duration_ms" in row]
    steps = {row["step"] for row in rows if row["name"] == "training_step"}
    return statistics.median(sum(row["step"] == step and row.get("kind") == "comm" for row in rows) for step in steps)


def command_of(trainer, options, folder):
    command = [sys.executable, "-m", "cep.run", "--no-summary", "-o", folder, "--every", str(EVERY), "--"]
    if options.instructions:
        counting = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes", "--dump-before=getpgid"]
        command += [*counting, f"--callgrind-out-file={folder}/instructions"]
    command += [sys.executable]
    if options.ranks > 1:
        command += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={options.ranks}"]
    command += [__file__, "--train", trainer, "--folder", folder, "--rounds", str(options.rounds)]
    switches = [f"--{name}" for name in ("null", "cold", "instructions") if getattr(options, name)]
    return [*command, "--warm-up", str(options.warm_up), *switches]


def start(trainer, options, folder, number):
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    if options.ranks == 1:  # Transformers' Trainer takes all GPUs that it sees
        environment.setdefault("CUDA_VISIBLE_DEVICES", str(number % max(1, torch.cuda.device_count())))
    if options.instructions:
        environment["PYTHONHASHSEED"] = "0"
    command, output = command_of(trainer, options, folder), Path(folder, "output").open("w")
    return subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)


def measure(trainer, options):
    with contextlib.ExitStack() as stack:
        folders = [stack.enter_context(tempfile.TemporaryDirectory(prefix="cep-bench-")) for _ in range(options.at_once)]
        trainings = [start(trainer, options, folder, number) for number, folder in enumerate(folders)]
        for training in trainings:
            stack.callback(training.terminate)  # where another has failed
        for training, folder in zip(trainings, map(Path, folders)):
            if training.wait() and not (folder / "times_0.json").exists():
                raise SystemExit(f"{trainer} ended with status {training.returncode}:\n{(folder / 'output').read_text()[-4000:]}")
        times = [json.loads(Path(folder, "times_0.json").read_text()) for folder in folders]
        collectives = collectives_in_a_step(Path(folders[0]))
        if options.instructions:
            steps, begins = times[0]
            report_instructions(trainer, options, with_instructions(steps, Path(folders[0])), begins, collectives)
        else:
            report(trainer, options, times, collectives)


def report(trainer, options, times, collectives):
    by_clock = {name: [rounds_of(*each, index) for each in times] for index, name in enumerate(CLOCKS)}
    alone_us = statistics.median(one.alone_us for rounds in by_clock["elapsed"] for one in rounds)
    print(f"{trainer}: {alone_us:,.0f} µs a step alone, {conditions(options)}")
    budget_us = 100 + 5 * collectives
    for title, value_of, budget in (
        ("not recorded, µs", not_recorded_us, "10"),
        ("recorded, µs", recorded_us, f"100 + 5 × {collectives:g} = {budget_us:g}"),
        ("every 10th step, % of 5 ms", share_of_5_ms, "0.5"),
    ):
        print(f"    {title}: at most {budget}")
        for name, trainings in by_clock.items():
            print(f"        {name:17} {with_interval(value_of, trainings)}", flush=True)


def report_instructions(trainer, options, steps, begins, collectives):
    rounds = rounds_of(steps, begins, 0)
    alone = statistics.median(one.alone_us for one in rounds)
    print(f"{trainer}: {alone:,.0f} thousand instructions a step alone, {conditions(options)}")
    print(f"    not recorded                     {with_interval(not_recorded_us, [rounds])}")
    print(f"    recorded, with {collectives:g} collectives     {with_interval(recorded_us, [rounds])}", flush=True)


def conditions(options):
    where = torch.cuda.get_device_name() if DEVICE.type == "cuda" else "CPU"
    turns = f"{options.at_once} × " * (options.at_once > 1) + f"{options.rounds} rounds of 2 × {TURN} steps"
    turns += ", out of the caches" * options.cold + ", all with cep" * options.null
    return f"{options.ranks} × {where}, {turns}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trainers", nargs="+", choices=tuple(TRAINERS), default=list(TRAINERS))
    parser.add_argument("--rounds", type=int, default=120, help=f"of {TURN} steps without cep and {TURN} with it")
    parser.add_argument("--warm-up", type=int, default=100, help="steps before the first round")
    parser.add_argument("--ranks", type=int, default=1, help="processes of each trainer")
    parser.add_argument("--at-once", type=int, default=1, help="trainings of the same kind")
    parser.add_argument("--null", action="store_true", help="cep stays in all turns")
    parser.add_argument("--cold", action="store_true", help="other work between two steps, which is not timed")
    parser.add_argument("--instructions", action="store_true", help="of the trainer's thread, in the place of time")
    parser.add_argument("--train", choices=tuple(TRAINERS), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.instructions and max(options.ranks, options.at_once) > 1:
        parser.error("--instructions counts those of one process: --ranks 1 and --at-once 1")
    torch.set_num_threads(1)
    if options.train:
        torch.manual_seed(0)
        if DEVICE.type == "cuda":
            torch.cuda.set_device(DEVICE)
        TRAINERS[options.train](options)
        return
    for trainer in options.trainers:
        if trainer in ("lightning", "transformers") and importlib.util.find_spec(trainer) is None:
            print(f"{trainer}: is not installed")
        else:
            measure(trainer, options)


if __name__ == "__main__":
    main()
