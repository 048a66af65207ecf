#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Whether a release of the library is the same, byte for byte, wherever it is built: builds it twice, in two directories
# with names of different lengths, and compares.
#
#     sh tools/reproducible.sh
#     sh tools/reproducible.sh --from BUILD   # builds it once, with the options of a build directory, and compares with its
set -eu

cd -- "$(dirname -- "$0")/.."
case "$#:${1-}" in
    0:) from= ;;
    2:--from) from=$(cd -- "$2" && pwd) ;;
    *)
        sed -n '3,7s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
esac
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# library_of BUILD: its path there.
library_of() {
    ninja -C "$1" -t targets all | sed -n 's/^\(lib\/libcep\.so\.[0-9.]*\): .*/\1/p' | head -n 1
}

# build_in DIRECTORY OPTION...: leaves the library there, as library.so.
build_in() {
    mkdir -p "$1"
    cp -R meson.build meson_options.txt LICENSE include lib bindings man tools tests examples "$1"
    (
        cd "$1"
        shift
        meson setup build "$@" -Dtests=disabled -Dtools=disabled -Drust=disabled -Djulia=disabled -Dcuda=disabled -Dpython=false
        library=$(library_of build)
        ninja -C build "$library"
        cp "build/$library" library.so
    ) >"$1.log" 2>&1 || {
        tail -n 40 "$1.log" >&2
        return 1
    }
}

if [ -n "$from" ]; then
    mkdir "$folder/one"
    cp "$from/$(library_of "$from")" "$folder/one/library.so"
    options=$(sed -n '/^\[options\]/,$s/^\([a-z_]*\) = \([^ ]*\)$/-D\1=\2/p' "$from/meson-private/cmd_line.txt")
else
    options=--buildtype=release
    build_in "$folder/one" $options
fi
# shellcheck disable=SC2086  # a list of words
build_in "$folder/another-with-a-longer-name/two" $options
if ! cmp "$folder/one/library.so" "$folder/another-with-a-longer-name/two/library.so"; then
    echo "The two libraries differ." >&2
    exit 1
fi
if grep -qF -e "$PWD" -e "$folder" "$folder/one/library.so" "$folder/another-with-a-longer-name/two/library.so"; then
    echo "The library names the directory in which it was built." >&2
    exit 1
fi
echo "The two libraries are the same: $(sha256sum <"$folder/one/library.so" | cut -d ' ' -f 1)"
