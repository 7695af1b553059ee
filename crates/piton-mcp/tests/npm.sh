#!/bin/sh
# Installs packages from npm into a folder, once: npm.sh FOLDER PACKAGE…. A folder that exists is complete; of several tests that want
# it at the same time, one installs it.
set -eu
folder=$1
shift
mkdir -p "$(dirname "$folder")"
exec 9>"$folder.lock"
flock 9
[ ! -d "$folder" ] || exit 0
rm -rf "$folder.new"
mkdir "$folder.new"
npm install --no-audit --no-fund --ignore-scripts --loglevel=error --prefix "$folder.new" "$@" >&2
mv "$folder.new" "$folder"
