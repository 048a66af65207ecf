#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes dist/cep-VERSION-py3-none-manylinux_….whl: the Python package, libcep.so, the cep command and the manual pages in
# one file, for every Linux with glibc 2.27 or later (wheel/sysroot.sh says how).
#
#     sh tools/wheel.sh                  # builds what it packs, in build-wheel/
#     sh tools/wheel.sh --sdist          # makes a source archive, too, and builds the wheel from that alone
#     sh tools/wheel.sh --arch aarch64   # for aarch64, with a cross compiler; asks QEMU whether the command starts
#     BUILD=build sh tools/wheel.sh      # packs what is built there, for a C library like this machine's
set -eu

cd -- "$(dirname -- "$0")/.."
usage() {
    sed -n '3,9s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

own_machine=$(uname -m)
machine=$own_machine
sdist=false
while [ $# -gt 0 ]; do
    case $1 in
        --sdist) sdist=true ;;
        --arch)
            [ $# -ge 2 ] || usage
            machine=$2
            shift
            ;;
        *) usage ;;
    esac
    shift
done
case $own_machine-$machine-${BUILD:-} in
    "$machine-$machine-"*) ;;
    x86_64-aarch64-) ;;
    *) usage ;;
esac

. tools/dependencies.sh
. tools/wheel/sysroot.sh
# shellcheck disable=SC2086  # lists of words
ensure_packages $BUILD_PACKAGES $WHEEL_PACKAGES
# shellcheck disable=SC2086
[ "$machine" = "$own_machine" ] || ensure_packages $WHEEL_AARCH64_PACKAGES
python=$(find_python pip)
cache=$PWD/.cache/wheel/$machine
source=$PWD

# build_wheel SOURCE SETTING...: with the settings of the build backend
build_wheel() {
    from=$1
    shift
    for setting in "$@"; do
        set -- "$@" --config-settings "$setting"
        shift
    done
    rm -f dist/cep-*_"$machine".whl
    "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist "$@" "$from"
}

# unpack_source_archive DIRECTORY: makes the archive, and unpacks it there.
unpack_source_archive() {
    rm -rf dist/cep-*.tar.gz "$1"
    mkdir -p dist "$1"
    "$python" -B -c "import sys; sys.path.insert(0, 'bindings/python/build_backend'); import backend
backend.build_sdist('dist')"
    tar -xf dist/cep-*.tar.gz -C "$1" --strip-components=1
}

# try_with_old_library WHEEL: runs the command on the C library that it was linked against.
try_with_old_library() {
    rm -rf "$cache/wheel"
    "$python" -m zipfile -e "$1" "$cache/wheel"
    chmod +x "$cache/wheel/cep/bin/cep"
    # shellcheck disable=SC2086  # no word where the machine is this one
    $emulator "$cache/sysroot/$loader" --library-path "$cache/sysroot/${loader%/*}" "$cache/wheel/cep/bin/cep" --version >/dev/null
}

if [ -n "${BUILD:-}" ]; then
    build_wheel . "build-dir=$BUILD"
elif [ "$own_machine" = x86_64 ] && command -v apt-get >/dev/null; then
    set_machine "$machine"
    ensure_sysroot "$cache"
    export PKG_CONFIG_LIBDIR="$cache/sysroot/usr/lib/pkgconfig"
    if $sdist; then
        source=$cache/source
        unpack_source_archive "$source"
    fi
    build=$source/build-wheel
    file=--native-file
    if [ "$machine" != "$own_machine" ]; then
        build=$build-$machine
        file=--cross-file
    fi
    rm -rf "$build"
    build_wheel "$source" "build-dir=$build" "setup-args=$file=$cache/machine.ini" \
        "licences=$cache/sysroot/licences" newest-glibc=2.27
    try_with_old_library dist/cep-*_"$machine".whl
else
    echo "An older C library is at hand for Debian on x86-64 only: the wheel will need one like this machine's." >&2
    build_wheel .
fi
ls dist/cep-*
