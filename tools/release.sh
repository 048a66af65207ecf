#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the files of a release in dist/: the source archive, the wheel that is built from it, and their checksums. Nothing
# is signed, and nothing leaves this machine. docs/versioning.md says what to do before.
#
#     sh tools/release.sh VERSION              # check, test, build
#     sh tools/release.sh --tag VERSION        # and make the tag vVERSION in this repository
#     sh tools/release.sh --dry-run VERSION    # check, and say what would be done
set -eu

usage() {
    sed -n '3,8s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

fail() {
    echo "No release: $*" >&2
    exit 1
}

tag=false
dry=false
version=
for argument in "$@"; do
    case $argument in
        --tag) tag=true ;;
        --dry-run) dry=true ;;
        [0-9]*.[0-9]*.[0-9]*)
            [ -z "$version" ] || usage
            version=$argument
            ;;
        *) usage ;;
    esac
done
[ -n "$version" ] || usage

cd -- "$(dirname -- "$0")/.."

# The lines of CHANGELOG.md under the version.
notes() {
    awk -v heading="## [$version] - " 'index($0, "## ") == 1 { inside = index($0, heading) == 1; next } inside' CHANGELOG.md
}

check() {
    changed=$(git status --porcelain) || fail "this is no git checkout"
    [ -z "$changed" ] || fail "files are changed or unknown to git:
$changed"
    [ "$(python3 tools/version.py)" = "$version" ] || fail "meson.build has version $(python3 tools/version.py)"
    differing=$(python3 tools/version.py --check) || fail "the version is not the same everywhere:
$differing"
    notes | grep -q '[^[:space:]]' || fail "CHANGELOG.md says nothing under \"## [$version] - DATE\""
    head -n 1 debian/changelog | grep -qF "cep ($version)" || fail "debian/changelog does not begin with this version"
    if git rev-parse --quiet --verify "refs/tags/v$version" >/dev/null; then fail "the tag v$version exists"; fi
}

# do_or_say COMMAND...
do_or_say() {
    if $dry; then
        echo "would run: $*"
    else
        echo "== $*"
        "$@"
    fi
}

make_archive() {
    rm -rf "$folder/build"
    meson setup "$folder/build" -Dtools=disabled -Dtests=disabled -Dcuda=disabled -Drust=disabled -Djulia=disabled \
        -Dpython=false >"$folder/setup.log" 2>&1 || {
        tail -n 40 "$folder/setup.log" >&2
        return 1
    }
    meson dist -C "$folder/build" --no-tests --formats xztar
    cp "$folder/build/meson-dist/$archive" dist/
}

# From the source archive, so that what is missing there is noticed.
make_wheel() {
    tar -xf "dist/$archive" -C "$folder"
    (cd "$folder/cep-$version" && sh tools/wheel.sh)
    cp "$folder/cep-$version/dist/cep-$version"-*.whl dist/
}

make_checksums() {
    (cd dist && sha256sum "$archive" "cep-$version"-*.whl >"cep-$version.sha256" && cat "cep-$version.sha256")
}

check
echo "cep $version: the tree is clean, the versions agree, and the changelog has $(notes | grep -c '^- ') entries"
archive=cep-$version.tar.xz
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

do_or_say sh tools/test.sh --all
$dry || mkdir -p dist
do_or_say rm -f dist/cep-"$version"*
do_or_say make_archive
do_or_say make_wheel
do_or_say make_checksums
if $tag; then do_or_say git tag -a "v$version" -m "cep $version"; fi
