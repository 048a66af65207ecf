#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A selection of the tests of the C interface under valgrind's memcheck: invalid accesses, uninitialised values and
# definite leaks are failures. Tests that count threads, memory or allocations, and those of many spans, are left out.
#
#     sh tools/valgrind.sh [BUILD_DIRECTORY]
set -eu

cd -- "$(dirname -- "$0")/.."
build=${1:-build}
command -v valgrind >/dev/null || {
    echo "No valgrind; nothing is checked." >&2
    exit 77
}
tests="options_struct options_json options_env sampling region span attrs counter_mark run_stats"
for test in $tests; do ninja -C "$build" "tests/api/${test}_test" >/dev/null; done
failed=0
for test in $tests; do
    printf '%s: ' "$test"
    if valgrind --quiet --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite --child-silent-after-fork=no \
        "$build/tests/api/${test}_test" >"$build/valgrind-$test.log" 2>&1; then
        echo clean
    else
        failed=1
        echo FAILED
        grep -v '^ok ' "$build/valgrind-$test.log" | head -n 60
    fi
done
exit "$failed"
