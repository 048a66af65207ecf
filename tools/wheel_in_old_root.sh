#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs dist/cep-*.whl with pip into an old release, runs a job there, and reads its files with cep. The release is made
# by debootstrap below .cache/roots, once; this needs root and a mirror that carries it.
#
#     sh tools/wheel_in_old_root.sh                       # Debian 11, glibc 2.31
#     sh tools/wheel_in_old_root.sh jammy http://archive.ubuntu.com/ubuntu
#     sh tools/wheel_in_old_root.sh --arch arm64          # the wheel for aarch64, which QEMU runs
#
# In a release whose Python is older than the package's, the command alone is run, out of the unpacked wheel.
# Exits with 77 where it cannot do that.
set -eu

cd -- "$(dirname -- "$0")/.."
. tools/dependencies.sh
foreign=
machine=x86_64
if [ "${1-}" = --arch ]; then
    [ "${2-}" = arm64 ] || {
        sed -n '3,11s/^# \{0,1\}//p' "$0" >&2
        exit 2
    }
    foreign=arm64
    machine=aarch64
    shift 2
fi
suite=${1:-bullseye}
mirror=${2:-$(debian_mirror)}
root=$PWD/.cache/roots/$suite${foreign:+-$foreign}

skip() {
    echo "skipped: $*" >&2
    exit 77
}

[ "$(id -u)" -eq 0 ] || skip "only root can make and enter a root directory of another release"
ensure_packages debootstrap || true
command -v debootstrap >/dev/null || skip "no debootstrap"
wheel=$(ls dist/cep-*_"$machine".whl 2>/dev/null) || skip "no wheel in dist; tools/wheel.sh makes it"
emulator=qemu-aarch64-static
if [ -n "$foreign" ]; then
    ensure_packages qemu-user-static || true
    command -v "$emulator" >/dev/null || skip "no $emulator"
fi

# Installs nothing by dpkg: the programs that do so would have to run in the root, where one cannot start another unless the
# kernel knows of QEMU. All files of the packages are there.
make_foreign_root() {
    debootstrap --foreign --arch="$foreign" --variant=minbase --include=python3,python3-pip "$suite" "$root" "$mirror" || return 1
    for package in "$root"/var/cache/apt/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar --keep-directory-symlink -xf - -C "$root" || return 1
    done
    cp "$(command -v "$emulator")" "$root/"
}

make_root() {
    case $mirror in # where python3-venv is
        *ubuntu*) components=main,universe ;;
        *) components=main ;;
    esac
    debootstrap --variant=minbase --components="$components" --include=python3-venv "$suite" "$root" "$mirror"
}

if [ ! -f "$root/complete" ]; then
    echo "Making a root directory of $suite"
    rm -rf "$root"
    mkdir -p "$root"
    "make_${foreign:+foreign_}root" >"$root.log" 2>&1 || {
        tail -n 5 "$root.log" >&2
        skip "debootstrap cannot make $suite from $mirror"
    }
    touch "$root/complete"
fi

rm -rf "$root/trial"
mkdir "$root/trial"
cp "$wheel" examples/ten_lines.py "$root/trial/"

# run_in_root PROGRAM ARGUMENT...: by QEMU.
run_in_root() (
    program=$1
    shift
    env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/trial LANG=C.UTF-8 chroot "$root" "/$emulator" "$program" "$@"
)

# In place of the script below, because each program has to be started from outside.
try_foreign_wheel() {
    run_in_root /usr/bin/python3 -c 'import platform; print(platform.machine(), *platform.libc_ver(), "Python", platform.python_version())'
    run_in_root /usr/bin/python3 -m pip --quiet --disable-pip-version-check install --no-index --no-cache-dir \
        "/trial/${wheel##*/}"
    run_in_root /usr/bin/python3 -c 'import os; os.chdir("/trial"); exec(open("ten_lines.py").read())'
    run_in_root /usr/bin/python3 -c 'import cep; print("binding:", cep.binding)'
    command=$(cd "$root" && find usr/local -path '*/cep/bin/cep')
    run_in_root "/$command" summarize /trial/output
    run_in_root "/$command" help verdict | head -n 1
    ! run_in_root "/$command" --no-such-option || exit 1 # an exception passes through the C++ runtime inside
    echo "The wheel works in $suite for $foreign."
}

if [ -n "$foreign" ]; then
    try_foreign_wheel
    exit
fi
cat >"$root/trial/job.sh" <<'END'
set -eu
cd /trial
ldd --version | head -n 1
python3 --version
if python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))'; then
    python3 -m venv environment
    environment/bin/pip --quiet --disable-pip-version-check install --no-index cep-*.whl
    PATH=/trial/environment/bin:$PATH
    python ten_lines.py
    python -c 'import cep; print("binding:", cep.binding)'
else
    python3 -m zipfile -e cep-*.whl unpacked
    chmod +x unpacked/cep/bin/cep
    PATH=/trial/unpacked/cep/bin:$PATH
    cep simulate -o output
fi
cep summarize output
cep help merge | head -n 1
END
chroot "$root" /usr/bin/env -i PATH=/usr/bin:/bin:/usr/sbin:/sbin LANG=C.UTF-8 sh /trial/job.sh
echo "The wheel works in $suite."
