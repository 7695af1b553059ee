#!/bin/sh
# Installs packages from PyPI into a virtual environment, once: pip.sh FOLDER PACKAGE…. A folder that exists is complete; of several
# tests that want it at the same time, one installs it.
set -eu
folder=$1
shift
mkdir -p "$(dirname "$folder")"
exec 9>"$folder.lock"
flock 9
[ ! -f "$folder/complete" ] || exit 0
rm -rf "$folder"
python3 -m venv "$folder"
"$folder/bin/pip" install --quiet --disable-pip-version-check "$@" >&2
touch "$folder/complete"
