#!/bin/sh
# One run of the GitHub Action (action.yml): installs Piton unless one is named, gives it the task, and writes the outputs.
# Inputs are variables, never part of a command: nothing in them is run.
set -eu

# The longest patch that is an output; a longer one is in the file alone.
longest_patch=500000

install_piton() {
    case $INPUT_VERSION in
        latest) url=$ACTION_REPOSITORY/releases/latest/download ;;
        *) url=$ACTION_REPOSITORY/releases/download/$INPUT_VERSION ;;
    esac
    PITON_INSTALL_URL=$url PITON_INSTALL_DIR=$RUNNER_TEMP/piton-bin sh "$(dirname "$0")/install.sh" >&2
    echo "$RUNNER_TEMP/piton-bin/piton"
}

# The working tree as git stores it, new files included, without touching the index of the job.
snapshot() {
    index=$RUNNER_TEMP/piton-index
    rm -f "$index"
    GIT_INDEX_FILE=$index git add --all .
    GIT_INDEX_FILE=$index git write-tree
}

# output NAME FILE: a value of many lines ends with a word that nobody can guess.
output() {
    end=end-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    {
        echo "$1<<$end"
        cat "$2"
        echo
        echo "$end"
    } >>"$GITHUB_OUTPUT"
}

cd "$(git rev-parse --show-toplevel)"
piton=${INPUT_PITON:-}
[ -n "$piton" ] || piton=$(install_piton)

set -- --model "$INPUT_MODEL" --max-cost "$INPUT_BUDGET" --quiet
if [ "$INPUT_ALLOW" = all ]; then
    set -- "$@" --yes
else
    for tool in $(echo "$INPUT_ALLOW" | tr ',' ' '); do
        set -- "$@" --allow "$tool"
    done
fi

before=$(snapshot)
code=0
"$piton" run "$@" -- "$INPUT_PROMPT" >"$RUNNER_TEMP/piton-comment.md" </dev/null || code=$?
patch=$RUNNER_TEMP/piton.patch
git diff --binary "$before" "$(snapshot)" >"$patch"

output comment "$RUNNER_TEMP/piton-comment.md"
echo "patch-file=$patch" >>"$GITHUB_OUTPUT"
echo "exit-code=$code" >>"$GITHUB_OUTPUT"
if [ "$(wc -c <"$patch")" -le "$longest_patch" ]; then
    output patch "$patch"
else
    echo "::warning::The patch is too long for an output; it is in $patch"
fi
exit "$code"
