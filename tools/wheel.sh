#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes dist/cep-VERSION-py3-none-manylinux_….whl: the Python package, libcep.so and the cep command in one file, for
# every Linux with a C library not older than this machine's.
#
#     sh tools/wheel.sh                  # builds what it packs
#     BUILD=build sh tools/wheel.sh      # packs what is built there
set -eu

cd -- "$(dirname -- "$0")/.."
. tools/dependencies.sh
# shellcheck disable=SC2086  # a list of words
ensure_packages $BUILD_PACKAGES $WHEEL_PACKAGES
ensure_page_packages
python=$(find_python pip)

rm -f dist/cep-*.whl
"$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist \
    ${BUILD:+--config-settings "build-dir=$BUILD"} .
ls dist/cep-*.whl
