#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes dist/cep-VERSION-py3-none-manylinux_….whl: the Python package, libcep.so, the cep command and the manual pages in
# one file, for every Linux with glibc 2.28 or later (wheel/sysroot.sh says how).
#
#     sh tools/wheel.sh                  # builds what it packs, in build-wheel/
#     sh tools/wheel.sh --sdist          # makes a source archive, too, and builds the wheel from that alone
#     BUILD=build sh tools/wheel.sh      # packs what is built there, for a C library like this machine's
set -eu

cd -- "$(dirname -- "$0")/.."
. tools/dependencies.sh
. tools/wheel/sysroot.sh
# shellcheck disable=SC2086  # a list of words
ensure_packages $BUILD_PACKAGES $WHEEL_PACKAGES
ensure_page_packages
python=$(find_python pip)
cache=$PWD/.cache/wheel
source=$PWD

# build_wheel SOURCE SETTING...: with the settings of the build backend
build_wheel() {
    from=$1
    shift
    for setting in "$@"; do
        set -- "$@" --config-settings "$setting"
        shift
    done
    rm -f dist/cep-*.whl
    "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist "$@" "$from"
}

# unpack_source_archive DIRECTORY: makes the archive, and unpacks it there.
unpack_source_archive() {
    rm -rf dist/cep-*.tar.gz "$1"
    mkdir -p dist "$1"
    "$python" -B -c "import sys; sys.path.insert(0, 'bindings/python/build_backend'); import backend
backend.build_sdist('dist')"
    tar -xf dist/cep-*.tar.gz -C "$1" --strip-components=1
    [ ! -d tools/report/page/node_modules ] || cp -R tools/report/page/node_modules "$1/tools/report/page/"
}

# try_with_old_library WHEEL: runs the command on the C library that it was linked against.
try_with_old_library() {
    rm -rf "$cache/wheel"
    "$python" -m zipfile -e "$1" "$cache/wheel"
    chmod +x "$cache/wheel/cep/bin/cep"
    libraries=$cache/sysroot/lib/x86_64-linux-gnu
    "$libraries/ld-2.27.so" --library-path "$libraries" "$cache/wheel/cep/bin/cep" --version >/dev/null
}

if [ -n "${BUILD:-}" ]; then
    build_wheel . "build-dir=$BUILD"
elif [ "$(uname -m)" = x86_64 ] && command -v apt-get >/dev/null; then
    ensure_sysroot "$cache"
    export PKG_CONFIG_LIBDIR="$cache/sysroot/usr/lib/pkgconfig"
    if [ "${1:-}" = --sdist ]; then
        source=$cache/source
        unpack_source_archive "$source"
    fi
    rm -rf "$source/build-wheel"
    build_wheel "$source" "build-dir=$source/build-wheel" "setup-args=--native-file=$cache/native.ini" \
        "licences=$cache/sysroot/licences" newest-glibc=2.28
    try_with_old_library dist/cep-*.whl
else
    echo "An older C library is at hand for Debian on x86-64 only: the wheel will need one like this machine's." >&2
    build_wheel .
fi
ls dist/cep-*
