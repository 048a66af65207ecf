#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Whether a release of the library is the same, byte for byte, wherever it is built: builds it twice, in two directories
# with names of different lengths, and compares.
#
#     sh tools/reproducible.sh
set -eu

cd -- "$(dirname -- "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# build_in DIRECTORY: prints the path of the library.
build_in() {
    mkdir -p "$1"
    cp -R meson.build meson_options.txt LICENSE include lib bindings man tools tests examples "$1"
    (
        cd "$1"
        meson setup build --buildtype=release -Dtests=disabled -Dtools=disabled -Drust=disabled -Djulia=disabled \
            -Dcuda=disabled -Dpython=false
        library=$(ninja -C build -t targets all | sed -n 's/^\(.*libcep\.so\.[0-9.]*\): .*/\1/p' | head -n 1)
        ninja -C build "$library"
        cp "build/$library" library.so
    ) >"$1.log" 2>&1 || {
        tail -n 40 "$1.log" >&2
        return 1
    }
}

build_in "$folder/one"
build_in "$folder/another-with-a-longer-name/two"
if ! cmp "$folder/one/library.so" "$folder/another-with-a-longer-name/two/library.so"; then
    echo "The two libraries differ." >&2
    exit 1
fi
if grep -q "$folder" "$folder/one/library.so"; then
    echo "The library names the directory in which it was built." >&2
    exit 1
fi
echo "The two libraries are the same: $(sha256sum <"$folder/one/library.so" | cut -d ' ' -f 1)"
