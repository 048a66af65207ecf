# SPDX-License-Identifier: Apache-2.0
# Sourced by quickstart.sh and test.sh: which Debian packages the project needs, and how they get there.
# shellcheck shell=sh

BUILD_PACKAGES="g++ meson ninja-build pkg-config libcjson-dev libsimdjson-dev libfmt-dev libcli11-dev
    zlib1g-dev libzstd-dev python3"
TEST_PACKAGES="libgtest-dev python3-pytest python3-numpy python3-torch mypy mandoc strace clang libclang-rt-14-dev
    clang-format clang-tidy abigail-tools"

# Prints those of its arguments that are not installed.
missing_packages() {
    for package in "$@"; do
        status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || status=
        [ "$status" = installed ] || printf '%s ' "$package"
    done
}

# Installs what is missing of its arguments. Touches nothing, and asks no mirror, where everything is there.
ensure_packages() {
    if ! command -v dpkg-query >/dev/null; then
        echo "This is no Debian: cannot tell whether these (Debian's names) are there: $*" >&2
        return 0
    fi
    missing=$(missing_packages "$@")
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" -ne 0 ]; then
        echo "Missing packages, and no right to install them. Ask for:" >&2
        echo "    apt-get install $missing" >&2
        return 1
    fi
    echo "Installing: $missing"
    # shellcheck disable=SC2086  # a list of words
    (
        set -e
        DEBIAN_FRONTEND=noninteractive
        export DEBIAN_FRONTEND
        apt-get update -qq
        apt-get install -y -qq --no-install-recommends $missing >/dev/null
    )
}

# Prints the first Python that can import its arguments. The one on PATH need not be the one apt's packages are for.
find_python() {
    for python in python3 /usr/bin/python3; do
        if "$python" -c "import sys; assert sys.version_info >= (3, 9); [__import__(name) for name in sys.argv[1:]]" \
            "$@" 2>/dev/null; then
            command -v "$python"
            return 0
        fi
    done
    echo "No Python 3.9 or later with: ${*:-no modules}" >&2
    return 1
}

# configure DIRECTORY OPTION...: sets a build directory up, or brings an existing one up to these options.
configure() {
    directory=$1
    shift
    if [ -f "$directory/build.ninja" ]; then
        meson setup --reconfigure "$@" "$directory"
    else
        meson setup "$@" "$directory"
    fi
}
