# SPDX-License-Identifier: Apache-2.0
"""Trainers on PyTorch alone, in the shapes of its own examples, of nanoGPT and CleanRL, and as people write them by hand."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from common import BATCH, GPT, WIDTH, Pairs, Slow, classifier, in_ddp, pairs_loader, rank, text_batch, world_size


def ddp_series(log, device):
    """A class Trainer with epochs, batches and a snapshot, as in PyTorch's series on DDP."""

    class Trainer:
        def __init__(self, model, loader, optimizer):
            self.model, self.loader, self.optimizer = in_ddp(model, device), loader, optimizer

        def run_batch(self, source, targets):
            self.optimizer.zero_grad()
            loss = F.cross_entropy(self.model(source), targets)
            loss.backward()
            self.optimizer.step()
            log.step(loss.item())

        def run_epoch(self, epoch):
            self.loader.sampler.set_epoch(epoch)
            for source, targets in self.loader:
                self.run_batch(source.to(device), targets.to(device))
                if log.is_over:
                    return

        def train(self):
            epoch = 0
            while not log.is_over:
                self.run_epoch(epoch)
                if rank() == 0:
                    torch.save(self.model.module.state_dict(), log.options.results / "snapshot.pt")
                epoch += 1

    model = classifier()
    trainer = Trainer(model, pairs_loader(device, num_workers=1), torch.optim.SGD(model.parameters(), lr=1e-3))
    trainer.train()
    return (model,)


def imagenet(log, device):
    """train(), validate(), meters and a schedule, as in PyTorch's imagenet example."""
    model = in_ddp(
        nn.Sequential(nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), Slow(),
                      nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)),
        device,
    )  # fmt: skip
    criterion = nn.CrossEntropyLoss().to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.1)
    loader = pairs_loader(device)
    held_out = DataLoader(TensorDataset(*Pairs(64)[:]), BATCH)
    per_epoch = log.options.steps // 2

    def train(epoch):
        loader.sampler.set_epoch(epoch)
        model.train()
        for number, (images, target) in enumerate(loader):
            if number == per_epoch:
                break
            images, target = images.to(device, non_blocking=True), target.to(device, non_blocking=True)
            output = model(images)
            loss = criterion(output, target)
            (output.argmax(1) == target).float().mean().item()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            log.step(loss.item())

    def validate():
        model.eval()
        right = torch.zeros(1, device=device)
        with torch.no_grad():
            for images, target in held_out:
                right += (model(images.to(device)).argmax(1) == target.to(device)).sum()
        dist.all_reduce(right)

    for epoch in range(2):
        train(epoch)
        validate()
        scheduler.step()
    return (model.module,)


def dcgan(log, device):
    """Two models, two optimizers, three backwards a step, as in PyTorch's dcgan example."""
    generator = in_ddp(nn.Sequential(nn.Linear(16, 128), nn.ReLU(), Slow(), nn.Linear(128, WIDTH), nn.Tanh()), device)
    critic = in_ddp(nn.Sequential(nn.Linear(WIDTH, 128), nn.LeakyReLU(0.2), nn.Linear(128, 1), nn.Sigmoid()), device)
    criterion = nn.BCELoss()
    optimizers = [torch.optim.Adam(model.parameters(), lr=2e-4, betas=(0.5, 0.999)) for model in (critic, generator)]
    for real, _ in pairs_loader(device):
        critic.zero_grad()
        real = real.to(device)
        label = torch.ones(len(real), 1, device=device)
        error_real = criterion(critic(real), label)
        error_real.backward()
        made = generator(torch.randn(len(real), 16, device=device))
        error_made = criterion(critic(made.detach()), label * 0)
        error_made.backward()
        optimizers[0].step()
        generator.zero_grad()
        error = criterion(critic(made), label)
        error.backward()
        optimizers[1].step()
        log.step(error.item() + error_real.item() + error_made.item())
        if log.is_over:
            break
    return generator.module, critic.module


def nanogpt(log, device):
    """No loader; micro-batches, autocast, a scaler, clipping and a decaying rate, as in nanoGPT."""
    data = torch.randint(0, 96, (10_000,))
    model = in_ddp(GPT(), device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), fused=device.type == "cuda")
    scaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")
    autocast = torch.autocast(device.type, dtype=torch.bfloat16)
    x, y = text_batch(data, device)
    while True:
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 / (1 + log.steps)
        for micro_step in range(4):
            model.require_backward_grad_sync = micro_step == 3
            with autocast:
                _, loss = model(x, y)
                loss = loss / 4
            x, y = text_batch(data, device)
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        log.step(loss.item() * 4)
        if log.is_over:
            return (model.module,)


def fsdp2(log, device):
    """fully_shard() for each block, activation checkpointing, a norm over all shards, as in the tutorial."""
    from torch.distributed.fsdp import fully_shard

    mesh = dist.device_mesh.init_device_mesh(device.type, (world_size(),))
    model = GPT(checkpointing=True).to(device)
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = torch.randint(0, 96, (10_000,))
    while not log.is_over:
        _, loss = model(*text_batch(data, device))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        log.step(loss.item())
    return (model,)


def ppo(log, device):
    """Rollouts without gradients, then epochs over them: no loader, and models that are called outside of training."""
    actor = in_ddp(nn.Sequential(nn.Linear(8, WIDTH), nn.Tanh(), Slow(), nn.Linear(WIDTH, 4)), device)
    critic = in_ddp(nn.Sequential(nn.Linear(8, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1)), device)
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=3e-4, eps=1e-5)
    state = torch.randn(64, 8, device=device)
    while not log.is_over:
        with torch.no_grad():
            choices = torch.distributions.Categorical(logits=actor(state))
            action = choices.sample()
            old = choices.log_prob(action)
            returns = (action == 0).float() + critic(state).squeeze(-1) * 0.5
        for _ in range(4):
            for part in torch.randperm(64, device=device).chunk(2):
                ratio = (torch.distributions.Categorical(logits=actor(state[part])).log_prob(action[part]) - old[part]).exp()
                value = critic(state[part]).squeeze(-1)
                gain = (returns[part] - value).detach()
                loss = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean() + (returns[part] - value).square().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(actor.parameters(), 0.5)
                optimizer.step()
                log.step(loss.item())
        state = state * 0.9 + torch.randn_like(state) * 0.1
    return actor.module, critic.module


def by_hand(log, device):
    """Gradients averaged with asynchronous all-reduces from hooks, as trainers do that have outgrown DDP."""
    model = classifier().to(device)
    handles = []

    def average(parameter):
        parameter.grad.div_(world_size())
        handles.append(dist.all_reduce(parameter.grad, async_op=True))

    for parameter in model.parameters():
        dist.broadcast(parameter.data, 0)
        parameter.register_post_accumulate_grad_hook(average)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
    for source, targets in pairs_loader(device):
        loss = F.cross_entropy(model(source.to(device, non_blocking=True)), targets.to(device, non_blocking=True))
        loss.backward()
        for handle in handles:
            handle.wait()
        handles.clear()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        dist.all_reduce(mean := loss.detach() / world_size())
        log.step(mean.item())
        if log.is_over:
            return (model,)


def cuda_graph(log, device):
    """Forward and backward as one CUDA graph, which a step replays; the model is never called again."""
    if device.type != "cuda":
        raise SystemExit("needs a GPU")
    model = classifier().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)
    x, y = torch.randn(BATCH, WIDTH, device=device), torch.zeros(BATCH, dtype=torch.long, device=device)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
    fault = Slow()
    for source, targets in pairs_loader(device):
        x.copy_(source, non_blocking=True)
        y.copy_(targets, non_blocking=True)
        graph.replay()
        fault(x)
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        log.step(loss.item())
        if log.is_over:
            return (model,)
