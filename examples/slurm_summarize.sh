#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Summarises a large job as a Slurm job array: each task writes a partial summary of its share of the rank files.
#
#     id=$(sbatch --parsable slurm_summarize.sh output/cuda_event_profiler partials)
#     sbatch --dependency="afterok:$id" --wrap "cep summarize 'partials/*.partial.zst'"
#
#SBATCH --array=0-15
#SBATCH --cpus-per-task=2
#SBATCH --time=00:10:00
set -eu

directory=$1
partials=$2
task=$SLURM_ARRAY_TASK_ID
tasks=$SLURM_ARRAY_TASK_COUNT

mkdir -p "$partials"
rm -f "$partials/$task.partial.zst"
share=$(find "$directory" -name 'cuda_events_rank_*.jsonl*' | sort | awk -v task="$task" -v tasks="$tasks" \
    'NR % tasks == task')
[ -n "$share" ] || exit 0
status=0
printf '%s\n' "$share" | cep summarize --save "$partials/$task.partial.zst" --files-from - >/dev/null || status=$?
# Status 3: no file of the share could be read. The partial summary records that, so the final summary reports it.
[ "$status" -eq 3 ] || exit "$status"
