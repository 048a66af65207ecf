#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What cep costs a DDP training on all GPUs of this host, and whether its verdicts on real trainings are right.
#
#     sh tests/gpu/published.sh overhead    # off, off again, with, phase, event pairs, bare records; every step, every 10th
#     sh tests/gpu/published.sh verdicts    # clocks, 20 healthy trainings, DDP, FSDP2, micro-batches, a pipeline
#
# Options after the word go to tests/bench/training.py or tests/gpu/verdict_runs.py. Each takes less than ten minutes on 4
# or 8 GPUs. BUILD names the build directory; the package and the command come from there and from this source tree.
set -eu

cd -- "$(dirname -- "$0")/../.."
build=$(cd "${BUILD:-build}" && pwd)
export PYTHONPATH="$PWD/bindings/python${PYTHONPATH:+:$PYTHONPATH}" OMP_NUM_THREADS=1
export CEP_LIBRARY="$build/lib/libcep.so.0" CEP_BINDING="$build/bindings/python/native/_native.abi3.so"
export CEP_COMMAND="${CEP_COMMAND:-$build/tools/cep}"

gpus=$(python3 -c 'import torch; print(torch.cuda.device_count())')
[ "$gpus" -ge 4 ] || {
    echo "published.sh: skipped: $gpus GPUs; 4 are needed" >&2
    exit 77
}
what=${1-}
[ $# -eq 0 ] || shift
case $what in
    overhead)
        exec python3 tests/bench/training.py --bound both --step-ms 3 --seconds "${SECONDS_EACH:-180}" \
            --bare "$build/tests/bench/bare_records.abi3.so" "$@"
        ;;
    verdicts)
        runs="clocks,20xddp_none,5xfsdp_none"
        for kind in ddp fsdp; do
            for fault in forward backward data window intermittent small two harmless; do runs=$runs,${kind}_$fault; done
        done
        exec torchrun --standalone --nproc_per_node "$gpus" tests/gpu/verdict_runs.py \
            --output-dir "${OUT:-verdict_runs}" \
            --runs "$runs,lengths_lengths,pipeline_none,pipeline_worker,pipeline_stage" "$@"
        ;;
    *)
        sed -n '3,9s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
esac
