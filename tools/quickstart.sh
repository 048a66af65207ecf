#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# From a fresh clone to a summary of a real 8-process job: installs what is missing, builds, runs, analyses.
#
#     sh tools/quickstart.sh [OUTPUT_DIRECTORY]
set -eu

repository=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
build=$repository/build-quickstart
output=${1:-$build/output}
. "$repository/tools/dependencies.sh"

say() { printf '\n== %s\n' "$*"; }

quietly() {
    log=$build-quickstart.log
    "$@" >"$log" 2>&1 || {
        cat "$log" >&2
        echo "Failed: $*" >&2
        exit 1
    }
    rm -f "$log"
}

# shellcheck disable=SC2086  # a list of words
ensure_packages $BUILD_PACKAGES
(cd "$repository" && ensure_page_packages)
python=$(find_python)

say "Building libcep.so and the cep command in $build"
# Built to be ready soon: little optimisation, no debugging information, no tests.
[ -f "$build/build.ninja" ] || quietly meson setup -Ddebug=false -Doptimization=1 -Dtests=disabled "$build" "$repository"
quietly meson compile -C "$build" lib/cep:shared_library tools/cep:executable

export PATH="$build/tools:$PATH"
export PYTHONPATH="$repository/bindings/python${PYTHONPATH:+:$PYTHONPATH}"
export CEP_LIBRARY="$build/lib/libcep.so.0"
# A launcher's or an earlier trial's settings are not this job's.
unset CEP_CONFIG CEP_ENABLE RANK WORLD_SIZE LOCAL_RANK

say "Running a training job of 8 processes; rank 5 reads its data slowly in steps 35 to 94"
rm -rf "$output/cuda_event_profiler"
mkdir -p "$output"
"$python" "$repository/examples/quickstart_job.py" "$output"

say "cep merge: all ranks in one file"
cep merge -o "$output/merged.jsonl" "$output"
echo "$output/merged.jsonl: $(wc -l <"$output/merged.jsonl") rows"

say "cep check: are the files whole?"
cep check "$output"

say "cep summarize: where did the time go?"
cep summarize "$output"

cat <<END

== What to look at
data_load     "slowest rank" is the one with the slow disk, and "skew" says how many times as long as on a typical rank
              its median is. p99 far above p50: it is slow on few ranks, not on all.
all_reduce    Long, but not because of the network: the other ranks wait in it for the slow one. So a long collective
              is a reason to look at the phases before it.
forward, backward, optimizer
              Much the same on all ranks. What they differ by is what 8 processes on few cores do to each other.

As a page:             $build/tools/cep report -o report.html $output
The rows themselves:   less $output/merged.jsonl
For other programs:    $build/tools/cep summarize --json $output
In your own trainer:   see examples/ten_lines.py, examples/ten_lines.c and examples/torch_ddp.py
END
