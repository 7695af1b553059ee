"""A hook: reads a tool call on standard input, and refuses some commands with exit code 2."""

import json
import re
import sys

REFUSED = [
    (r"\brm\s+-\w*[rf]", "delete files one by one, by name"),
    (r"\bgit\s+push\b", "a person pushes"),
    (r"\b(npm|cargo|twine)\s+(publish|upload)\b", "a person publishes"),
]


def main():
    command = json.load(sys.stdin)["tool_input"].get("command", "")
    for pattern, instead in REFUSED:
        if re.search(pattern, command):
            print(f"guard: {instead}", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
