#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every test there is: installs what they need, builds three times (plain; address and undefined-behaviour sanitizers;
# thread sanitizer), runs all suites of each build, and ends with one line that counts them.
#
#     sh tools/test.sh
#
# The build directories are build, build-asan and build-tsan; BUILD=NAME puts NAME in the place of "build".
set -eu

cd -- "$(dirname -- "$0")/.."
build=${BUILD:-build}
. tools/dependencies.sh
# shellcheck disable=SC2086  # lists of words
ensure_packages $BUILD_PACKAGES $TEST_PACKAGES
ensure_cargo
ensure_julia
ensure_node_packages tests/cli/duckdb
python=$(find_python)

export ASAN_OPTIONS=detect_leaks=1:abort_on_error=1
export UBSAN_OPTIONS=halt_on_error=1:abort_on_error=1:print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1

# run_suites DIRECTORY OPTION...: results are left in the build directory, for the count below.
run_suites() {
    directory=$1
    shift
    echo "== $directory: build"
    rm -f "$directory/meson-logs/testlog.json"
    if ! { configure "$directory" "$@" && ninja -C "$directory"; } >"$directory.log" 2>&1; then
        tail -n 60 "$directory.log"
        return 0
    fi
    rm -f "$directory.log"
    echo "== $directory: test"
    meson test -C "$directory" --no-rebuild --quiet --timeout-multiplier 4 >/dev/null || true
}

run_suites "$build"
# Leaks of the interpreter are not ours to find, so the Python suites run in the plain build only. The other compiler, so
# that both are tried; and with the address and undefined-behaviour sanitizers it takes a fifth of the time to build.
(
    # Lines for the reports, and nothing for a debugger.
    export CC=clang CXX=clang++ CFLAGS=-gline-tables-only CXXFLAGS=-gline-tables-only
    run_suites "$build-asan" -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1
    run_suites "$build-tsan" -Db_sanitize=thread -Db_lundef=false -Doptimization=1
)

"$python" tests/count_results.py "$build" "$build-asan" "$build-tsan"
