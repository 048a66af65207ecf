# SPDX-License-Identifier: Apache-2.0
# Sourced by wheel.sh: an old C library to compile and link against, and in it, as static libraries, what cep needs.
#
# The wheel's binaries then come from the compiler that all tests run with: a recorded region takes as many instructions as
# with this machine's own C library. Tried before: zig (clang with libc++ 16), whose runtime has no std::from_chars() of
# floating point before libc++ 20. Not tried: a root directory of an old release, because none has a C++20 compiler.
# shellcheck shell=sh

# glibc 2.27 of Ubuntu 18.04, which mirrors still carry; RHEL 8 has 2.28. Any mirror will do, because the hashes are
# checked.
UBUNTU_MIRROR=${UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu}
OLD_GLIBC_PACKAGES="
1e1eb86fd646aa68f7144ec692b837b6b352d215880c6a2d0c92c19d36938427 main/g/glibc/libc6_2.27-3ubuntu1_amd64.deb
e426c70a940a7d0c5c95823a5fd01f26bd8bcb08d109df2f8c96c439da8dc440 main/g/glibc/libc6-dev_2.27-3ubuntu1_amd64.deb
4a73fc5ea2d0284e9c9c84cba68cbe5880505afbae0a3201c65c336daf8f8239 main/l/linux/linux-libc-dev_4.15.0-20.21_amd64.deb"

# download_packages FOLDER. Python is at hand where curl and wget need not be.
download_packages() {
    mkdir -p "$1"
    echo "$OLD_GLIBC_PACKAGES" | while read -r hash path; do
        [ -n "$hash" ] || continue
        file=$1/${path##*/}
        if ! echo "$hash  $file" | sha256sum --check --status 2>/dev/null; then
            echo "Downloading: ${path##*/}"
            # shellcheck disable=SC2154  # wheel.sh has set it
            "$python" -c 'import sys, urllib.request; urllib.request.urlretrieve(*sys.argv[1:])' \
                "$UBUNTU_MIRROR/pool/$path" "$file"
            echo "$hash  $file" | sha256sum --check --quiet
        fi
    done
}

# download_sources FOLDER: of the libraries that Debian has as shared ones only, in the release of this machine.
download_sources() {
    [ ! -d "$1/simdjson" ] || return 0
    rm -rf "$1"
    mkdir -p "$1/lists/partial"
    echo "Downloading: sources of cJSON and simdjson"
    (
        cd "$1" || exit 1
        keyring=/usr/share/keyrings/debian-archive-keyring.gpg
        [ ! -f "$keyring" ] || signed_by="[signed-by=$keyring] "
        echo "deb-src ${signed_by:-}$(debian_mirror) $(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release) main" >sources.list
        set -- -qq -o Dir::Etc::SourceList="$PWD/sources.list" -o Dir::Etc::SourceParts=/dev/null \
            -o Dir::State::lists="$PWD/lists" -o APT::Sandbox::User=root
        apt-get "$@" update
        apt-get "$@" source cjson simdjson >/dev/null # with Debian's patches
        mv cjson-* cjson
        mv simdjson-* simdjson
    )
}

# make_sysroot SYSROOT PACKAGES SOURCES
make_sysroot() {
    rm -rf "$1"
    mkdir -p "$1/usr/lib/pkgconfig" "$1/cxx/bits"
    for package in "$2"/*.deb; do dpkg-deb -x "$package" "$1"; done
    # Links to absolute paths would lead out of it.
    find "$1" -type l -lname '/*' | while read -r link; do ln -snf "$1$(readlink "$link")" "$link"; done
    ln -s /usr/include/x86_64-linux-gnu/python3* "$1/usr/include/x86_64-linux-gnu/" # where Debian keeps its pyconfig.h
    # The runtime's headers describe the machine's C library: without its calls that are newer.
    config=$(echo '#include <bits/c++config.h>' | g++ -E -x c++ - | sed -n 's/^# 1 "\(.*c++config.h\)".*/\1/p' | head -n 1)
    sed -E '/define _GLIBCXX_USE_PTHREAD_(COND_CLOCKWAIT|MUTEX_CLOCKLOCK|RWLOCK_CLOCKLOCK)/d' "$config" >"$1/cxx/bits/c++config.h"
    add_libraries "$1" "$3"
    add_licences "$1/licences"
}

# add_licences FOLDER: of what is inside the wheel's binaries, as Debian states them.
add_licences() {
    mkdir "$1"
    for package in libcjson-dev libsimdjson-dev libzstd-dev zlib1g-dev libfmt-dev libcli11-dev "gcc-$(g++ -dumpversion)-base"; do
        cp "/usr/share/doc/$package/copyright" "$1/$package"
    done
}

# add_library SYSROOT PKG_CONFIG_NAME LINK_ARGUMENTS HEADER...
add_library() {
    sysroot=$1 name=$2 arguments=$3
    shift 3
    for header in "$@"; do cp -R "/usr/include/$header" "$sysroot/usr/include/"; done
    printf 'Name: %s\nDescription: %s\nVersion: %s\nLibs: %s\n' "$name" "$name" "$(pkg-config --modversion "$name")" \
        "$arguments" >"$sysroot/usr/lib/pkgconfig/$name.pc"
}

add_libraries() {
    compile="-O3 -DNDEBUG -fPIC -fvisibility=hidden -fstack-protector-strong -ffile-prefix-map=$2=. -I$1/usr/include"
    add_library "$1" libcjson -lcjson cjson
    add_library "$1" simdjson -lsimdjson simdjson.h
    add_library "$1" libzstd "-lzstd -lpthread" zstd.h zstd_errors.h
    add_library "$1" zlib -lz zlib.h zconf.h
    add_library "$1" fmt "" fmt
    add_library "$1" CLI11 "" CLI
    # shellcheck disable=SC2086  # a list of words
    {
        gcc --sysroot="$1" $compile -c "$2/cjson/cJSON.c" -o "$1/cJSON.o"
        g++ --sysroot="$1" -isystem "$1/cxx" -std=c++20 $compile -c "$2/simdjson/singleheader/simdjson.cpp" -o "$1/simdjson.o"
        gcc --sysroot="$1" $compile -Wall -Wextra -Werror -c tools/wheel/old_glibc.c -o "$1/old_glibc.o"
    }
    gcc-ar cr "$1/usr/lib/libcjson.a" "$1/cJSON.o"
    gcc-ar cr "$1/usr/lib/libsimdjson.a" "$1/simdjson.o"
    cp /usr/lib/x86_64-linux-gnu/libz.a /usr/lib/x86_64-linux-gnu/libzstd.a "$1/usr/lib/"
}

# write_native_file SYSROOT FILE: how Meson is to compile and link.
write_native_file() {
    # GCC looks for libraries beside its own files before it looks into a sysroot, except with -B.
    link="'-B$1/usr/lib/x86_64-linux-gnu', '-B$1/lib/x86_64-linux-gnu', '-L$1/usr/lib', '-static-libgcc'"
    launcher=
    ! command -v ccache >/dev/null || launcher="'ccache', "
    cat >"$2" <<END
[binaries]
c = [${launcher}'gcc', '--sysroot=$1']
cpp = [${launcher}'g++', '--sysroot=$1', '-isystem', '$1/cxx']
ar = 'gcc-ar'
pkg-config = 'pkg-config'

[built-in options]
pkg_config_path = ''
cpp_args = ['-DGTHREAD_USE_WEAK=0'] # the runtime's own objects take threads for granted, too
c_link_args = [$link]
cpp_link_args = [$link, '-static-libstdc++', '$1/old_glibc.o']
END
}

# ensure_sysroot CACHE: CACHE/sysroot and CACHE/native.ini, made anew if this script or the compiler has changed.
ensure_sysroot() {
    stamp=$({ cat tools/wheel/*; g++ -v 2>&1; echo "$1"; } | sha256sum)
    if [ ! -f "$1/native.ini" ] || [ "$(cat "$1/stamp" 2>/dev/null)" != "$stamp" ]; then
        download_packages "$1/packages"
        download_sources "$1/sources"
        make_sysroot "$1/sysroot" "$1/packages" "$1/sources"
        write_native_file "$1/sysroot" "$1/native.ini"
        echo "$stamp" >"$1/stamp"
    fi
}
