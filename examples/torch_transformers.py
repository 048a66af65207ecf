# SPDX-License-Identifier: Apache-2.0
"""A training with Transformers' Trainer, recorded with cep. cep needs only the line with instrument().

    python3 torch_transformers.py --output-dir output
    torchrun --nproc_per_node 2 torch_transformers.py --output-dir output
    cep summarize output

A small Llama with made-up data, on GPUs if there is one for each local rank, else on CPUs.
"""

import argparse
import os

import torch
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

import cep.integrations.transformers

VOCABULARY = 64
CONTEXT = 64


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch-size", type=int, default=8, help="sequences a rank and micro-batch")
    parser.add_argument("--accumulate", type=int, default=1, help="micro-batches a step")
    parser.add_argument("--width", type=int, default=64, help="of the model")
    parser.add_argument("--output-dir", default="output")
    parser.add_argument("--record-every-n-steps", type=int, default=1)
    return parser.parse_args()


class Progressions(Dataset):
    """Sequences with a start and a stride: the next token can be learned from the last two."""

    def __len__(self):
        return 4096

    def __getitem__(self, index):
        start, stride = index % VOCABULARY, 1 + index // VOCABULARY % 7
        tokens = (start + stride * torch.arange(CONTEXT)) % VOCABULARY
        return {"input_ids": tokens, "labels": tokens}


def small_llama(width):
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=CONTEXT,
    )
    return LlamaForCausalLM(config)


def training_arguments(options):
    local_ranks = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    on_cpu = torch.cuda.device_count() < local_ranks
    return TrainingArguments(
        options.output_dir,
        max_steps=options.steps,
        per_device_train_batch_size=options.batch_size,
        gradient_accumulation_steps=options.accumulate,
        learning_rate=1e-3,
        dataloader_num_workers=1,
        logging_steps=10,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=on_cpu,
        ddp_backend="gloo" if on_cpu and local_ranks > 1 else None,
    )


def main():
    options = arguments()
    torch.manual_seed(0)
    trainer = Trainer(small_llama(options.width), training_arguments(options), train_dataset=Progressions())
    cep.integrations.transformers.instrument(trainer, record_every_n_steps=options.record_every_n_steps)
    result = trainer.train()
    if trainer.is_world_process_zero():
        print(f"{result.global_step} steps on {trainer.args.world_size} ranks, mean loss {result.training_loss:.3f}")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
