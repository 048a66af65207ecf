#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs dist/cep-*.whl with pip into an old release, runs a job there, and reads its files with cep. The release is made
# by debootstrap below .cache/roots, once; this needs root and a mirror that carries it.
#
#     sh tools/wheel_in_old_root.sh                       # Debian 11, glibc 2.31
#     sh tools/wheel_in_old_root.sh jammy http://archive.ubuntu.com/ubuntu
#
# In a release whose Python is older than the package's, the command alone is run, out of the unpacked wheel.
# Exits with 77 where it cannot do that.
set -eu

cd -- "$(dirname -- "$0")/.."
. tools/dependencies.sh
suite=${1:-bullseye}
mirror=${2:-$(debian_mirror)}
root=$PWD/.cache/roots/$suite

skip() {
    echo "skipped: $*" >&2
    exit 77
}

[ "$(id -u)" -eq 0 ] || skip "only root can make and enter a root directory of another release"
ensure_packages debootstrap || true
command -v debootstrap >/dev/null || skip "no debootstrap"
wheel=$(ls dist/cep-*.whl 2>/dev/null) || skip "no wheel in dist; tools/wheel.sh makes it"

if [ ! -f "$root/complete" ]; then
    echo "Making a root directory of $suite"
    rm -rf "$root"
    mkdir -p "$root"
    debootstrap --variant=minbase --include=python3-venv "$suite" "$root" "$mirror" >"$root.log" 2>&1 || {
        tail -n 5 "$root.log" >&2
        skip "debootstrap cannot make $suite from $mirror"
    }
    touch "$root/complete"
fi

rm -rf "$root/trial"
mkdir "$root/trial"
cp "$wheel" examples/ten_lines.py "$root/trial/"
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
