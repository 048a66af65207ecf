# SPDX-License-Identifier: Apache-2.0
# Sourced by wheel.sh: an old C library to compile and link against, and in it, as static libraries, what cep needs.
#
# The wheel's binaries then come from the compiler that all tests run with: a recorded region takes as many instructions as
# with this machine's own C library. Tried before: zig (clang with libc++ 16), whose runtime has no std::from_chars() of
# floating point before libc++ 20. Not tried: a root directory of an old release, because none has a C++20 compiler.
# shellcheck shell=sh

# glibc 2.27 of Ubuntu 18.04, which mirrors still carry; RHEL 8 has 2.28. Any mirror will do, because the hashes are
# checked. For aarch64 it is in the packages of Ubuntu's own cross compiler, and Debian's cross compiler, of the same
# version as the one for x86-64, links against it.
UBUNTU_MIRROR=${UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu}
OLD_GLIBC_X86_64="
1e1eb86fd646aa68f7144ec692b837b6b352d215880c6a2d0c92c19d36938427 main/g/glibc/libc6_2.27-3ubuntu1_amd64.deb
e426c70a940a7d0c5c95823a5fd01f26bd8bcb08d109df2f8c96c439da8dc440 main/g/glibc/libc6-dev_2.27-3ubuntu1_amd64.deb
4a73fc5ea2d0284e9c9c84cba68cbe5880505afbae0a3201c65c336daf8f8239 main/l/linux/linux-libc-dev_4.15.0-20.21_amd64.deb"
OLD_GLIBC_AARCH64="
3b7ac882761276bf76653dcf0bb31c1741aa56ec173092db4d7d4af5487962d3 main/c/cross-toolchain-base/libc6-arm64-cross_2.27-3ubuntu1cross1_all.deb
8990471116770194523ac485eb1b65fabc9bb2b130d47bc61cc262f04bf33931 main/c/cross-toolchain-base/libc6-dev-arm64-cross_2.27-3ubuntu1cross1_all.deb
fa7188a15ff3460ca5330206382442ebca72b7ba28c72b5742260e48310c0565 main/c/cross-toolchain-base/linux-libc-dev-arm64-cross_4.15.0-18.19cross1_all.deb"

# set_machine x86_64|aarch64: what differs between the two.
set_machine() {
    machine=$1
    triplet=$machine-linux-gnu
    if [ "$machine" = x86_64 ]; then
        tools= # the prefix of the compiler's programs
        old_glibc=$OLD_GLIBC_X86_64
        library_folders="usr/lib/$triplet lib/$triplet" # of the C library, in the sysroot
        loader=lib/$triplet/ld-2.27.so
        emulator=
    else
        tools=$triplet-
        old_glibc=$OLD_GLIBC_AARCH64
        library_folders=usr/$triplet/lib
        loader=usr/$triplet/lib/ld-2.27.so
        emulator=qemu-aarch64-static
    fi
}

# download_packages FOLDER. Python is at hand where curl and wget need not be.
download_packages() {
    mkdir -p "$1"
    echo "$old_glibc" | while read -r hash path; do
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
        set_apt_options deb-src
        # shellcheck disable=SC2086  # a list of words
        apt-get $apt_options update && apt-get $apt_options source cjson simdjson >/dev/null || exit 1 # with Debian's patches
        mv cjson-* cjson
        mv simdjson-* simdjson
    )
}

# download_foreign_libraries FOLDER: Debian's static libraries, and Python's description of its machine, for aarch64.
download_foreign_libraries() {
    [ ! -d "$1/usr" ] || return 0
    rm -rf "$1"
    mkdir -p "$1/lists/partial"
    libpython=libpython$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')-dev
    echo "Downloading: zlib1g-dev, libzstd-dev and $libpython for arm64"
    (
        cd "$1" || exit 1
        set_apt_options deb
        apt_options="$apt_options -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::status=/dev/null"
        # shellcheck disable=SC2086  # a list of words
        apt-get $apt_options update && apt-get $apt_options download zlib1g-dev libzstd-dev "$libpython" >/dev/null || exit 1
        for package in *.deb; do dpkg-deb -x "$package" . || exit 1; done
    )
}

# set_apt_options deb|deb-src: the options with which apt-get, in this folder, uses lists of its own of this machine's
# release of Debian, and leaves the machine's configuration of apt as it is.
set_apt_options() {
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    signed_by=
    [ ! -f "$keyring" ] || signed_by="[signed-by=$keyring] "
    echo "$1 $signed_by$(debian_mirror) $(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release) main" >sources.list
    apt_options="-qq -o Dir::Etc::SourceList=$PWD/sources.list -o Dir::Etc::SourceParts=/dev/null
        -o Dir::State::lists=$PWD/lists -o APT::Sandbox::User=root"
}

# make_sysroot SYSROOT PACKAGES SOURCES FOREIGN_LIBRARIES
make_sysroot() {
    rm -rf "$1"
    mkdir -p "$1/usr/lib/pkgconfig" "$1/usr/include/$triplet" "$1/cxx/bits"
    for package in "$2"/*.deb; do dpkg-deb -x "$package" "$1"; done
    # Links to absolute paths would lead out of it.
    find "$1" -type l -lname '/*' | while read -r link; do ln -snf "$1$(readlink "$link")" "$link"; done
    if [ "$machine" = x86_64 ]; then static=/usr; else static=$4/usr; fi
    for folder in "$static/include/$triplet"/python3*; do # where Debian keeps its pyconfig.h
        [ ! -d "$folder" ] || ln -s "$folder" "$1/usr/include/$triplet/"
    done
    # The runtime's headers describe the machine's C library: without its calls that are newer.
    config=$(echo '#include <bits/c++config.h>' | "${tools}g++" -E -x c++ - | sed -n 's/^# 1 "\(.*c++config.h\)".*/\1/p' | head -n 1)
    sed -E '/define _GLIBCXX_USE_PTHREAD_(COND_CLOCKWAIT|MUTEX_CLOCKLOCK|RWLOCK_CLOCKLOCK)/d' "$config" >"$1/cxx/bits/c++config.h"
    add_libraries "$1" "$3" "$static/lib/$triplet"
    add_licences "$1/licences"
}

# add_licences FOLDER: of what is inside the wheel's binaries, as Debian states them.
add_licences() {
    mkdir "$1"
    for package in libcjson-dev libsimdjson-dev libzstd-dev zlib1g-dev libfmt-dev libcli11-dev "gcc-$("${tools}g++" -dumpversion)-base"; do
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

# Prints the arguments with which the compiler takes its headers from the sysroot. header_arguments SYSROOT c|cpp
header_arguments() {
    words="--sysroot=$1"
    runtime=
    [ "$2" = c ] || runtime=$1/cxx
    if [ -n "$tools" ]; then
        # A cross compiler looks into its own C library's headers before it looks into a sysroot.
        words="$words -nostdinc"
        if [ "$2" = cpp ]; then
            cxx=/usr/$triplet/include/c++/$("${tools}g++" -dumpversion)
            runtime="$runtime $cxx $cxx/$triplet $cxx/backward"
        fi
        runtime="$runtime $("${tools}gcc" -print-file-name=include) $1/usr/$triplet/include $1/usr/include"
    fi
    for folder in $runtime; do words="$words -isystem $folder"; done
    echo "$words"
}

# add_libraries SYSROOT SOURCES STATIC_LIBRARIES
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
        "${tools}gcc" $(header_arguments "$1" c) $compile -c "$2/cjson/cJSON.c" -o "$1/cJSON.o"
        "${tools}g++" $(header_arguments "$1" cpp) -std=c++20 $compile -c "$2/simdjson/singleheader/simdjson.cpp" \
            -o "$1/simdjson.o"
        "${tools}gcc" $(header_arguments "$1" c) $compile -Wall -Wextra -Werror -c tools/wheel/old_glibc.c -o "$1/old_glibc.o"
    }
    "${tools}gcc-ar" cr "$1/usr/lib/libcjson.a" "$1/cJSON.o"
    "${tools}gcc-ar" cr "$1/usr/lib/libsimdjson.a" "$1/simdjson.o"
    cp "$3/libz.a" "$3/libzstd.a" "$1/usr/lib/"
}

# Prints its arguments as a list of Meson's.
meson_list() {
    separator=
    for word in "$@"; do
        printf "%s'%s'" "$separator" "$word"
        separator=', '
    done
}

# write_machine_file SYSROOT FILE: how Meson is to compile and link.
write_machine_file() {
    # GCC looks for libraries beside its own files before it looks into a sysroot, except with -B.
    link=
    for folder in $library_folders; do link="$link -B$1/$folder"; done
    link="$link -L$1/usr/lib -static-libgcc"
    launcher=
    ! command -v ccache >/dev/null || launcher=ccache
    # shellcheck disable=SC2046,SC2086  # lists of words
    cat >"$2" <<END
[binaries]
c = [$(meson_list $launcher "${tools}gcc" $(header_arguments "$1" c))]
cpp = [$(meson_list $launcher "${tools}g++" $(header_arguments "$1" cpp))]
ar = '${tools}gcc-ar'
strip = '${tools}strip'
pkgconfig = 'pkg-config' # its name before Meson 1.3
pkg-config = 'pkg-config'

[properties]
pkg_config_libdir = '$1/usr/lib/pkgconfig'

[built-in options]
pkg_config_path = ''
cpp_args = ['-DGTHREAD_USE_WEAK=0'] # the runtime's own objects take threads for granted, too
c_link_args = [$(meson_list $link)]
cpp_link_args = [$(meson_list $link -static-libstdc++ "$1/old_glibc.o")]
END
    [ -z "$tools" ] || cat >>"$2" <<END

[host_machine]
system = 'linux'
cpu_family = '$machine'
cpu = '$machine'
endian = 'little'
END
}

# ensure_sysroot CACHE: CACHE/sysroot and CACHE/machine.ini, made anew if this script or the compiler has changed.
ensure_sysroot() {
    stamp=$({ cat tools/wheel/*; "${tools}g++" -v 2>&1; echo "$1"; } | sha256sum)
    if [ ! -f "$1/machine.ini" ] || [ "$(cat "$1/stamp" 2>/dev/null)" != "$stamp" ]; then
        download_packages "$1/packages"
        download_sources "$1/sources"
        [ -z "$tools" ] || download_foreign_libraries "$1/libraries"
        make_sysroot "$1/sysroot" "$1/packages" "$1/sources" "$1/libraries"
        write_machine_file "$1/sysroot" "$1/machine.ini"
        echo "$stamp" >"$1/stamp"
    fi
}
