#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian packages libcep0, libcep-dev, cep and python3-cep from this tree into dist/debian, and checks them with
# lintian. Nothing is installed but what the build needs.
#
#     sh tools/debian_package.sh            # build and check
#     sh tools/debian_package.sh --try      # and install them in a new root of this Debian, made by debootstrap, and use
#                                           # them there: the command, a program in C, one in Python (as root)
#     sh tools/debian_package.sh --only-try # the same with the packages that are in dist/debian
#     sh tools/debian_package.sh --from BUILD # packs what is built in a directory, with the options of debian/rules, and
#                                           # tries the packages in a copy of this machine's own root; keeps nothing, and
#                                           # installs nothing. Exits with 77 where that cannot be done
set -eu

cd -- "$(dirname -- "$0")/.."
build=true
try=false
from=
case "$#:${1-}" in
    0:) ;;
    1:--try) try=true ;;
    1:--only-try)
        build=false
        try=true
        ;;
    2:--from) from=$(cd -- "$2" && pwd) ;;
    *)
        sed -n '3,13s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
esac
. tools/dependencies.sh
if $try && [ "$(id -u)" -ne 0 ]; then
    echo "Only root can make another root." >&2
    exit 1
fi

version=$(python3 tools/version.py)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"

# The files that git knows or does not ignore.
copy_source() {
    mkdir "$1"
    if [ -e .git ]; then
        git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -cf - -T - | tar -xf - -C "$1"
    else
        tar -cf - --exclude './build*' --exclude ./dist . | tar -xf - -C "$1"
    fi
}

# build_packages [OPTION]: of DEB_BUILD_OPTIONS
build_packages() (
    copy_source "$folder/cep-$version"
    cd "$folder/cep-$version"
    # Debian's own programs: the packages are for Debian's Python.
    export PATH=/usr/sbin:/usr/bin:/sbin:/bin CCACHE_DIR="${CCACHE_DIR:-$HOME/.cache/ccache}"
    export DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:-parallel=$(nproc)} ${1-}"
    dpkg-buildpackage --build=binary --no-sign >../build.log 2>&1 || {
        tail -n 60 ../build.log >&2
        exit 1
    }
    cd ..
    lintian --allow-root --fail-on error,warning cep_*.changes
)

# What a user does, in the new root, after COMMAND has installed the packages.
use_packages() {
    cat <<END
set -eu
cd /try
$1
END
    cat <<'END'
[ "$(cep --version)" = "cep $1" ]
for page in man1/cep.1 man3/cep_begin.3 man5/cep-jsonl.5 man7/cep-verdict.7; do
    dpkg -S "/usr/share/man/$page.gz" >/dev/null
done
# shellcheck disable=SC2046  # lists of words
cc -o ten_lines ten_lines.c $(pkg-config --cflags --libs cep)
./ten_lines
cep summarize cuda_event_profiler | grep -q '^forward '
python3 ten_lines.py output
python3 -c 'import cep; assert (cep.__version__, cep.binding) == ("'"$1"'", "native"), (cep.__version__, cep.binding)'
python3 -m cep summarize output | grep -q '^optimizer '
dpkg --purge cep libcep-dev python3-cep libcep0 >/dev/null
if find /usr -name '*cep[.-]*' ! -path '/usr/share/doc/*' | grep -E '/(lib)?cep[.-]|/cep/'; then
    echo "These files were left." >&2
    exit 1
fi
END
}

try_packages() {
    # shellcheck disable=SC2086  # a list of words
    ensure_packages debootstrap
    mirror=$(debian_mirror)
    release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    [ -n "$mirror" ] || {
        echo "apt knows no Debian mirror of this release." >&2
        return 1
    }
    root=$folder/root
    echo "Making a root of Debian $release"
    debootstrap --variant=minbase "$release" "$root" "$mirror" >"$folder/root.log" 2>&1 || {
        tail -n 20 "$folder/root.log" >&2
        return 1
    }
    mkdir "$root/try"
    cp dist/debian/*.deb examples/ten_lines.c examples/ten_lines.py "$root/try"
    use_packages "apt-get update -qq
apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends ./*.deb gcc libc6-dev pkg-config >/dev/null" >"$root/try/try.sh"
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive chroot "$root" sh /try/try.sh "$version"
    echo "The packages work in a new root of Debian $release."
}

skip() {
    echo "skipped: $*" >&2
    exit 77
}

# What a build and a trial in a copy of this machine's root need.
check_tools() {
    for file in lib/libcep.so.0 tools/cep bindings/python/native/_native.abi3.so; do
        [ -e "$from/$file" ] || skip "$file is not built in $from"
    done
    # shellcheck disable=SC2086  # lists of words
    missing=$(missing_packages $DEBIAN_PACKAGES libcjson-dev libcli11-dev libfmt-dev libsimdjson-dev libzstd-dev zlib1g-dev)
    [ -z "$missing" ] || skip "these packages are missing: $missing"
    [ "$(id -u)" -eq 0 ] || skip "only root can make another root"
}

# The same as in a new root, above this machine's own: what is written goes to a folder in memory, which ends with the trial.
try_above_own_root() {
    unshare --mount true 2>/dev/null || skip "no right to a mount namespace; the packages are built and checked"
    mkdir "$folder/try" "$folder/memory"
    cp "$folder"/*.deb examples/ten_lines.c examples/ten_lines.py "$folder/try"
    use_packages "dpkg --install ./*.deb >/dev/null" >"$folder/try/try.sh"
    # shellcheck disable=SC2016  # the inner shell's
    unshare --mount sh -euc '
        mount -t tmpfs none "$1/memory"
        cd "$1/memory"
        mkdir upper work root
        mount -t overlay -o lowerdir=/,upperdir=upper,workdir=work overlay root || exit 77
        mount --rbind /dev root/dev
        mount -t proc proc root/proc
        cp -R "$1/try" root/try
        env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive chroot root sh /try/try.sh "$2"
    ' sh "$folder" "$version" || {
        status=$?
        [ "$status" -ne 77 ] || skip "no overlay can be mounted; the packages are built and checked"
        return "$status"
    }
    echo "The packages work in a copy of this machine's root, and leave nothing there."
}

if [ -n "$from" ]; then
    check_tools
    export CEP_BUILD="$from"
    build_packages noautodbgsym # a release has nothing for a debugger
    try_above_own_root
    exit
fi
if $build; then
    # shellcheck disable=SC2086  # lists of words
    ensure_packages $BUILD_PACKAGES $DEBIAN_PACKAGES
    build_packages
    rm -rf dist/debian
    mkdir -p dist/debian
    cp "$folder"/*.deb dist/debian
    ls dist/debian/*.deb
fi
if $try; then try_packages; fi
