#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the guide, docs/guide, as HTML that opens from a disk without a network: the manual, the header and the Python
# package are pages of it. A warning is an error.
#
#     sh tools/guide.sh [OUTPUT_DIRECTORY]       # build/guide by default; open its index.html
set -eu

repository=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
output=${1:-$repository/build/guide}
. "$repository/tools/dependencies.sh"
# shellcheck disable=SC2086  # a list of words
ensure_packages $GUIDE_PACKAGES
python=$(find_python sphinx myst_parser furo)

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
source=$scratch/source
cp -R "$repository/docs/guide" "$source"
cp "$repository/docs/report.png" "$source/static/"
ln -s "$repository" "$source/root"

generate() { "$python" -B "$repository/docs/generate/$1.py" "$repository/$2" "$source/reference/$3"; }
generate manual man manual
generate header include/cep/cep.h header.md
generate package bindings/python/cep python

rm -rf "$output"
"$python" -B -m sphinx -q -W --keep-going -b html -d "$scratch/doctrees" "$source" "$output"
rm -rf "$output/.buildinfo" "$output/objects.inv"
# Debian's theme is not bundled: its script imports another, which a page from a disk may not. Here it is one script.
scripts=$output/_static/scripts
if grep -q '^import Gumshoe' "$scripts/furo.js"; then
    { cat "$scripts/gumshoe-patched.js" && sed '/^import Gumshoe/d' "$scripts/furo.js"; } >"$scripts/joined.js"
    mv "$scripts/joined.js" "$scripts/furo.js"
    rm "$scripts/gumshoe-patched.js"
fi
# And it takes this style from a web server's folder of shared files; here it is a file of the guide.
shared=/javascript/normalize.css/normalize.css
if grep -q "url($shared)" "$output/_static/styles/furo.css"; then
    cp "/usr/share$shared" "$output/_static/styles/"
    sed -i "s|url($shared)|url(normalize.css)|" "$output/_static/styles/furo.css"
fi
echo "$output/index.html"
