#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian packages libcep0, libcep-dev, cep and python3-cep from this tree into dist/debian, and checks them with
# lintian. Nothing is installed but what the build needs.
#
#     sh tools/debian_package.sh            # build and check
#     sh tools/debian_package.sh --try      # and install them in a new root of this Debian, made by debootstrap, and use
#                                           # them there: the command, a program in C, one in Python (as root)
#     sh tools/debian_package.sh --only-try # the same with the packages that are in dist/debian
set -eu

cd -- "$(dirname -- "$0")/.."
build=true
try=false
case "$#:${1-}" in
    0:) ;;
    1:--try) try=true ;;
    1:--only-try)
        build=false
        try=true
        ;;
    *)
        sed -n '3,10s/^# \{0,1\}//p' "$0" >&2
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

# The files that git knows or does not ignore, and the page's packages where they are installed.
copy_source() {
    mkdir "$1"
    if [ -e .git ]; then
        git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -cf - -T - | tar -xf - -C "$1"
    else
        tar -cf - --exclude './build*' --exclude ./dist . | tar -xf - -C "$1"
    fi
    if [ -d tools/report/page/node_modules ]; then cp -R tools/report/page/node_modules "$1/tools/report/page/"; fi
}

build_packages() (
    # shellcheck disable=SC2086  # lists of words
    ensure_packages $BUILD_PACKAGES $DEBIAN_PACKAGES
    copy_source "$folder/cep-$version"
    cd "$folder/cep-$version"
    # Debian's own programs: the packages are for Debian's Python.
    export PATH=/usr/sbin:/usr/bin:/sbin:/bin CCACHE_DIR="${CCACHE_DIR:-$HOME/.cache/ccache}"
    export DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:-parallel=$(nproc)}"
    dpkg-buildpackage --build=binary --no-sign >../build.log 2>&1 || {
        tail -n 60 ../build.log >&2
        exit 1
    }
    cd ..
    lintian --allow-root --fail-on error,warning cep_*.changes
)

debian_mirror() {
    release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    # shellcheck disable=SC2016  # fields of apt's, not of the shell
    mirror=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Identifier: Packages' |
        awk -v release="$release" '$1 == release && $2 == "main" { print $3; exit }')
    [ -n "$mirror" ] || {
        echo "apt knows no Debian mirror of this release." >&2
        return 1
    }
}

# What a user does, in the new root.
use_packages() {
    cat <<'END'
set -eu
cd /try
apt-get update -qq
apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends ./*.deb gcc libc6-dev pkg-config >/dev/null
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
apt-get purge -y -qq -o Dpkg::Use-Pty=0 cep libcep0 libcep-dev python3-cep >/dev/null
if find /usr -name '*cep[.-]*' ! -path '/usr/share/doc/*' | grep -E '/(lib)?cep[.-]|/cep/'; then
    echo "These files were left." >&2
    exit 1
fi
END
}

try_packages() {
    # shellcheck disable=SC2086  # a list of words
    ensure_packages debootstrap
    debian_mirror
    root=$folder/root
    echo "Making a root of Debian $release"
    debootstrap --variant=minbase "$release" "$root" "$mirror" >"$folder/root.log" 2>&1 || {
        tail -n 20 "$folder/root.log" >&2
        return 1
    }
    mkdir "$root/try"
    cp dist/debian/*.deb examples/ten_lines.c examples/ten_lines.py "$root/try"
    use_packages >"$root/try/try.sh"
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive chroot "$root" sh /try/try.sh "$version"
    echo "The packages work in a new root of Debian $release."
}

if $build; then
    build_packages
    rm -rf dist/debian
    mkdir -p dist/debian
    cp "$folder"/*.deb dist/debian
    ls dist/debian/*.deb
fi
if $try; then try_packages; fi
