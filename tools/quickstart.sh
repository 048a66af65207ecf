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

log=$build.log

fail() {
    cat "$log" >&2
    echo "Failed: $*" >&2
    exit 1
}

quietly() {
    "$@" >"$log" 2>&1 || fail "$@"
    rm -f "$log"
}

# Shows the numbers of the lines "[3/98] Compiling …" on standard input: in place on a terminal, else every tenth.
show_progress() {
    while IFS= read -r line; do
        printf '%s\n' "$line" >>"$log"
        done_of_all=${line%%]*}
        done_of_all=${done_of_all#[}
        case $done_of_all in
        *[!0-9/]* | '') continue ;;
        esac
        if [ -t 1 ]; then
            printf '\r%s' "$done_of_all"
        elif [ $((${done_of_all%/*} % 10)) -eq 0 ]; then
            echo "$done_of_all"
        fi
    done
    [ ! -t 1 ] || printf '\r%20s\r' ''
}

# Runs ninja, and shows how far it is.
build_with_progress() {
    : >"$log"
    rm -f "$log.failed"
    { "$@" 2>&1 || : >"$log.failed"; } | show_progress
    if [ -f "$log.failed" ]; then
        rm -f "$log.failed"
        fail "$@"
    fi
    rm -f "$log"
}

say "Looking for packages to install"
# shellcheck disable=SC2086  # a list of words
ensure_packages $BUILD_PACKAGES
python=$(find_python)

say "Building libcep.so and the cep command in $build: minutes on few cores"
# Built to be ready soon: little optimisation, no debugging information, no tests.
[ -f "$build/build.ninja" ] || quietly meson setup -Ddebug=false -Doptimization=1 -Dtests=disabled "$build" "$repository"
build_with_progress meson compile -C "$build" lib/cep:shared_library tools/cep:executable

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

== How to read it
first line    The rank, the phase and the steps that the verdict blames. In this job rank 5 read its data slowly in
              steps 35 to 94.
because       How much longer that phase takes there than on the other ranks, and how long they wait for it.
where the     Each nanosecond of each rank is counted once, so that the lines add up to what the job took. What runs beside
time went     compute is hidden, and costs nothing.
the table     A line for each phase. "slowest rank" is the one with the most work of its own on average, and "skew" is that
              divided by a typical rank's. Where p99 is far above p50, few of the spans are slow, not all.
all_reduce    Ranks wait in a collective for the last one to come. So a long one need not be the network: "because" says
              how much of it is waiting; look for the reason in the phases before it.

As a page:             $build/tools/cep report -o report.html $output
The rows themselves:   less $output/merged.jsonl
For other programs:    $build/tools/cep summarize --json $output
In your own trainer:   see examples/ten_lines.py, examples/ten_lines.c and examples/torch_ddp.py
END
