# SPDX-License-Identifier: Apache-2.0
"""Text before the text of a job: what stands before DDP's own all-reduce, and whether a model has a communication hook."""

LOOKS = """
def is_before_the_operator():
    return torch._C._dispatch_has_kernel_for_dispatch_key("c10d::allreduce_", "AutogradCPU")

def has_hook(model):
    return bool(model._get_ddp_logging_data().get("comm_hook"))
"""
