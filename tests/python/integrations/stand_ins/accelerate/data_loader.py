# SPDX-License-Identifier: Apache-2.0
"""A loader that fetches one batch ahead, and copies to the device within its own next()."""


def send_to_device(batch, device, non_blocking=False):
    return batch.to(device, non_blocking=non_blocking)


class DataLoaderShard:
    def __init__(self, loader, device):
        self.base_dataloader = loader
        self.device = device

    def __len__(self):
        return len(self.base_dataloader)

    def __iter__(self):
        iterator = self.base_dataloader.__iter__()
        batch = next(iterator)
        while True:
            batch = send_to_device(batch, self.device, non_blocking=True)
            try:
                following = next(iterator)
            except StopIteration:
                yield batch
                return
            yield batch
            batch = following
