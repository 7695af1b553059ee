"""Prints the lines of a changelog that stand under "Unreleased"."""

import sys


def unreleased(lines):
    inside = False
    for line in lines:
        if line.startswith("## "):
            inside = line.strip().lower() == "## unreleased"
        elif inside and line.strip():
            yield line.rstrip()


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as changelog:
        print("\n".join(unreleased(changelog)))
