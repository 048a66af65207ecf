#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs what the tests need, builds, runs the tests, and ends with one line that counts them.
#
#     sh tools/test.sh          # one build, every suite but the slow one: a few minutes
#     sh tools/test.sh --all    # what CI runs: every suite of an optimised build, and two builds with sanitizers
#
# The build directories are build, or build-o2, build-asan and build-tsan; BUILD=NAME puts NAME in the place of "build".
set -eu

cd -- "$(dirname -- "$0")/.."
case "$#:${1-}" in
    0:) all=false ;;
    1:--all) all=true ;;
    *)
        sed -n '3,8s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
esac
build=${BUILD:-build}
began=$(date +%s)
processes=$(($(nproc) + 1)) # many tests wait for something

say() { echo "== $(($(date +%s) - began)) s: $*"; }

say "look for missing packages"
. tools/dependencies.sh
# shellcheck disable=SC2086  # lists of words
ensure_packages $BUILD_PACKAGES $TEST_PACKAGES
ensure_cargo
ensure_julia
ensure_promtool
ensure_node_packages tests/cli/duckdb "its tests are skipped"
ensure_test_python
if $all; then
    # shellcheck disable=SC2086  # lists of words
    ensure_packages $GUIDE_PACKAGES $DEBIAN_PACKAGES
    ensure_slurm
    ensure_trace_processor
    ensure_node_packages tests/browser "its tests are skipped"
fi
python=$(find_python)
looked_s=$(($(date +%s) - began)) # the rest takes as long with packages that are there as with new ones
say "$looked_s s were to look for packages and to install them"

export ASAN_OPTIONS=detect_leaks=1:abort_on_error=1
export UBSAN_OPTIONS=halt_on_error=1:abort_on_error=1:print_stacktrace=1
# A process waits at its exit for races with the threads that it leaves: by default a second, of which the tests have many.
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:atexit_sleep_ms=200

# Passes on one of ninja's lines [N/TOTAL] for each tenth of the way.
show_tenths() {
    shown=0
    while IFS= read -r line; do
        case $line in "["*/*"] "*) ;; *) continue ;; esac
        line=${line%%"]"*}
        finished=${line%/*}
        finished=${finished#"["}
        total=${line#*/}
        tenth=$((10 * finished / total))
        [ "$tenth" -gt "$shown" ] || continue
        shown=$tenth
        echo "   $directory: $finished of $total built"
    done
}

# run_idly COMMAND...: with the time that others leave. Linux shares time between sessions before it does within one, and
# each test has a session of its own.
run_idly() {
    # shellcheck disable=SC2016  # the inner shell's
    setsid --wait chrt --idle 0 sh -c '{ echo 19 >/proc/self/autogroup; } 2>/dev/null || true; exec "$@"' sh "$@"
}

# build_in DIRECTORY OPTION...: shows the end of the log where this fails.
build_in() {
    directory=$1
    log=$directory/build.log
    shift
    mkdir -p "$directory"
    rm -f "$log.failed"
    say "$directory: configure"
    if configure "$directory" -Dwerror=true "$@" >"$log" 2>&1; then
        say "$directory: build"
        { ${pace-} ninja -C "$directory" 2>&1 || touch "$log.failed"; } | tee "$log" | show_tenths
    else
        touch "$log.failed"
    fi
    if [ -e "$log.failed" ]; then
        tail -n 60 "$log"
        rm -f "$log.failed"
        return 1
    fi
    rm -f "$log"
}

# test_in DIRECTORY OPTION...: the results are left in the build directory, for the count at the end.
test_in() {
    directory=$1
    shift
    say "$directory: test"
    meson test -C "$directory" --no-rebuild --num-processes "$processes" --timeout-multiplier 4 "$@" 2>&1 |
        grep --line-buffered -E '^ *[0-9]+/[0-9]+ ' || true
}

count() {
    say "count; $(($(date +%s) - began - looked_s)) s without the packages"
    "$python" tests/count_results.py "$@"
}

# with_clang COMMAND...: builds with clang where it is there and CC and CXX name no other compiler. Without optimisation,
# as the builds for tests have it in part (results_library in tools, test_options in tests), it takes half of gcc's time.
with_clang() (
    if [ -z "${CC-}${CXX-}" ] && command -v clang++ >/dev/null; then
        ccache=$(command -v ccache || true) # meson looks for it only where it chooses the compiler
        export CC="${ccache:+$ccache }clang" CXX="${ccache:+$ccache }clang++"
    fi
    "$@"
)

if ! $all; then
    rm -f "$build/meson-logs/testlog.json"
    # Built to be ready soon: the least optimisation that FORTIFY_SOURCE works with, and nothing for a debugger.
    with_clang build_in "$build" -Doptimization=1 -Ddebug=false && test_in "$build" --no-suite slow
    count "$build"
    exit
fi

rm -f "$build-o2/meson-logs/testlog.json" "$build-asan/meson-logs/testlog.json" "$build-tsan/meson-logs/testlog.json"
build_in "$build-o2" -Doptimization=2 -Ddebug=false && o2=built || o2=failed
# The other compiler, so that both are tried; and with the address and undefined-behaviour sanitizers it takes a fifth of
# the time to build. Line numbers are for the sanitizers' reports. What runs in other languages' interpreters runs in the
# build above only. Without any optimisation some tests take 18 times as long, and the library falls behind the pace of
# others: so only what computes little is built without (results_library in tools, test_options in tests). The rooms
# are compiled as two sources (few_units in tools): that leaves out a fifth of the code, which is there many times otherwise.
# It takes the time that tests leave, which run beside it: many wait, and some run alone. Whatever is left of both builds
# goes on beside the next tests.
build_sanitized() (
    directory=$1
    sanitizers=$2
    export CC=clang CXX=clang++ CFLAGS="-gline-tables-only ${3-}" CXXFLAGS="-gline-tables-only ${3-}"
    pace=run_idly
    build_in "$directory" -Db_sanitize="$sanitizers" -Db_lundef=false -Doptimization=1 -Ddebug=false -Dfew_units=true \
        -Dpython=false -Drust=disabled -Djulia=disabled
)

# Both, one after the other; says of each on descriptor 3 how it went. A finding ends the program in any case
# (UBSAN_OPTIONS): code that would continue after it makes the build a tenth slower. Nor does each access to memory have
# the check in its place, but a call of it, with which it takes two thirds to four fifths of the time to build.
build_both_sanitized() {
    build_sanitized "$build-asan" address,undefined \
        "-fno-sanitize-recover=all -mllvm -asan-instrumentation-with-call-threshold=0" && echo built >&3 || echo failed >&3
    build_sanitized "$build-tsan" thread && echo built >&3 || echo failed >&3
}

folder=$(mktemp -d)
mkfifo "$folder/built"
exec 3<>"$folder/built"
rm -r "$folder"
build_both_sanitized &
# The suite both_builds runs below, with the commands of this build and the next: what its tests do themselves takes longer.
[ "$o2" = failed ] || test_in "$build-o2" --no-suite both_builds
processes=$(nproc) # these compute
read -r asan <&3
[ "$o2" = failed ] || CEP_SECOND_COMMAND=$(realpath "$build-o2/tools/cep")
export CEP_SECOND_COMMAND
[ "$asan" = failed ] || test_in "$build-asan"
unset CEP_SECOND_COMMAND
# What has threads, and often waits for the clock; no build is left that would use the time.
read -r tsan <&3
processes=$(($(nproc) + 2))
[ "$tsan" = failed ] || test_in "$build-tsan" --suite unit --suite api --suite faults --suite process --suite fake_cuda \
    --suite cuda --suite soak --suite threads
count "$build-o2" "$build-asan" "$build-tsan"
