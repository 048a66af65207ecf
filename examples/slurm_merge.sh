#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Brings the rank files of a large job together as a Slurm job array: each task merges its share of them into one file.
#
#     id=$(sbatch --parsable slurm_merge.sh output/cuda_event_profiler merged)
#     sbatch --dependency="afterok:$id" --wrap "cep summarize 'merged/*.jsonl.zst'"
#
#SBATCH --array=0-15
#SBATCH --cpus-per-task=2
#SBATCH --time=00:10:00
set -eu

directory=$1
merged=$2
task=$SLURM_ARRAY_TASK_ID
tasks=$SLURM_ARRAY_TASK_COUNT

mkdir -p "$merged"
rm -f "$merged/$task.jsonl.zst"
share=$(find "$directory" -name 'cuda_events_rank_*.jsonl*' | sort | awk -v task="$task" -v tasks="$tasks" \
    'NR % tasks == task')
[ -n "$share" ] || exit 0
status=0
printf '%s\n' "$share" | cep merge -o "$merged/$task.jsonl.zst" --files-from - || status=$?
# Status 3: no file of the share could be read. The summary names the ranks as missing.
[ "$status" -eq 3 ] || exit "$status"
