# SPDX-License-Identifier: Apache-2.0
"""Text before the text of a job, so that DDP's buckets are timed without a hook, or with one, in any PyTorch."""

# With what PyTorch before 2.1 lacks, for jobs with one process group: Python's objects of those that the dispatcher
# passes.
WITHOUT_HOOK = """
import threading
from cep.torch import _ddp_reductions

class WorkFuture(torch.futures.Future):
    def done(self):  # for callers that know it: DDP has waited for the work
        self.wait_for_work()
        return True

class UnboxedWork:
    def __init__(self, boxed):
        self._wait = boxed._get_method("wait")

    def get_future(self):
        future = WorkFuture()
        future.wait_for_work = self._wait
        threading.Thread(target=lambda: (self._wait(), future.set_result(None))).start()
        return future

if _ddp_reductions._unbox_work is None:
    _ddp_reductions._unbox_work = UnboxedWork
    _ddp_reductions._unbox_group = lambda boxed: dist.distributed_c10d._get_default_group()

def is_before_the_operator():
    return torch._C._dispatch_has_kernel_for_dispatch_key("c10d::allreduce_", "AutogradCPU")

def has_hook(model):
    return bool(model._get_ddp_logging_data().get("comm_hook"))
"""

WITH_HOOK = WITHOUT_HOOK + "_ddp_reductions._unbox_work = None\n"
