#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A person with Lightning: adds a callback to the Trainer.
# needs: lightning
# says: training_step | data_load | forward | backward | optimizer
set -eu

cat >train.py <<'PROGRAM'
import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader

from cep.integrations.lightning import CepCallback


class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(64, 64)

    def training_step(self, batch, batch_index):
        return self.layer(batch).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


loader = DataLoader(torch.randn(1024, 64), batch_size=16)
trainer = Trainer(max_steps=60, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
                  default_root_dir="output", callbacks=[CepCallback(record_every_n_steps=1)])
trainer.fit(Model(), loader)
PROGRAM

python3 train.py
cep check output
cep summarize output
