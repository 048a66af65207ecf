# SPDX-License-Identifier: Apache-2.0
"""Trainers on Lightning, Fabric, Transformers and Accelerate. Where ranks share a GPU, they train on the CPU, because none of
these gives two ranks one device."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

from common import BATCH, WIDTH, Pairs, Slow, classifier, gpus, world_size


def frameworks_device(device):
    return torch.device("cpu") if gpus() < world_size() else device


def lightning(log, device):
    from lightning.pytorch import LightningModule, Trainer

    class Module(LightningModule):
        def __init__(self):
            super().__init__()
            self.layers = classifier()

        def training_step(self, batch, number):
            loss = F.cross_entropy(self.layers(batch[0]), batch[1])
            log.step(loss.item())
            return loss

        def validation_step(self, batch, number):
            self.log("held_out", F.cross_entropy(self.layers(batch[0]), batch[1]), sync_dist=True)

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]

    module = Module()
    kind = frameworks_device(device).type
    Trainer(
        accelerator="gpu" if kind == "cuda" else "cpu", devices=world_size(), strategy="ddp" if world_size() > 1 else "auto",
        max_epochs=2, limit_train_batches=log.options.steps // 2, logger=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=log.options.results, gradient_clip_val=1.0,
    ).fit(module, DataLoader(Pairs(), BATCH, num_workers=1), DataLoader(Pairs(64), BATCH))  # fmt: skip
    return (module,)


def fabric(log, device):
    from lightning.fabric import Fabric

    kind = frameworks_device(device).type
    one = Fabric(accelerator="gpu" if kind == "cuda" else "cpu", devices=world_size(), strategy="ddp" if world_size() > 1 else "auto")
    one.launch()
    plain = classifier()
    model, optimizer = one.setup(plain, torch.optim.AdamW(plain.parameters(), lr=1e-3))
    loader = one.setup_dataloaders(DataLoader(Pairs(), BATCH))
    for number, (source, targets) in enumerate(loader):
        is_accumulating = number % 2 == 0
        with one.no_backward_sync(model, enabled=is_accumulating):
            loss = F.cross_entropy(model(source), targets)
            one.backward(loss)
        if not is_accumulating:
            optimizer.step()
            optimizer.zero_grad()
            log.step(loss.item())
        if log.is_over:
            return (plain,)


def transformers(log, device):
    import transformers as hf

    class Logged(hf.TrainerCallback):
        def on_step_end(self, *_, **__):
            log.step(0)

    class Tokens(Dataset):
        def __len__(self):
            return 4096

        def __getitem__(self, at):
            tokens = torch.randint(0, 96, (32,), generator=torch.Generator().manual_seed(at))
            return {"input_ids": tokens, "labels": tokens}

    shape = dict(vocab_size=96, n_positions=32, n_embd=WIDTH, n_layer=2, n_head=4)
    model = hf.GPT2LMHeadModel(hf.GPT2Config(**shape))
    model.transformer.drop = nn.Sequential(model.transformer.drop, Slow())
    arguments = hf.TrainingArguments(
        str(log.options.results), max_steps=log.options.steps, per_device_train_batch_size=2, gradient_accumulation_steps=2,
        report_to=[], disable_tqdm=True, save_strategy="no", logging_steps=10, use_cpu=frameworks_device(device).type == "cpu",
        eval_strategy="steps", eval_steps=log.options.steps // 2,
    )  # fmt: skip
    held_out = torch.utils.data.Subset(Tokens(), range(16))
    trainer = hf.Trainer(model, arguments, train_dataset=Tokens(), eval_dataset=held_out, callbacks=[Logged()])
    trainer.train()
    log.losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return (model,)


def accelerate(log, device):
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=frameworks_device(device).type == "cpu", gradient_accumulation_steps=2)
    plain = classifier()
    optimizer = torch.optim.AdamW(plain.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    model, optimizer, loader, held_out, scheduler = accelerator.prepare(
        plain, optimizer, DataLoader(Pairs(), BATCH), DataLoader(Pairs(64), BATCH), scheduler
    )
    for epoch in range(2):
        model.train()
        for source, targets in loader:
            with accelerator.accumulate(model):
                loss = F.cross_entropy(model(source), targets)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                log.step(loss.item())
                if log.steps == (epoch + 1) * (log.options.steps // 2):
                    break
        model.eval()
        for source, targets in held_out:
            with torch.no_grad():
                accelerator.gather_for_metrics((model(source).argmax(1), targets))
    return (plain,)
