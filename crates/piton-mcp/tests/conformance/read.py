#!/usr/bin/env python3
"""Reads what the conformance suite has written, and says it: a line for each scenario, and each check that failed."""
import glob
import json
import os
import sys


def read(folder):
    """By scenario: how many checks there are, and which of them failed."""
    results = {}
    for file in sorted(glob.glob(f"{folder}/**/checks.json", recursive=True)):
        name = os.path.relpath(os.path.dirname(file), folder)
        checks = json.load(open(file))
        judged = [check for check in checks if check.get("status") in ("SUCCESS", "FAILURE", "WARNING")]
        results[name] = (len(judged), [check for check in judged if check["status"] == "FAILURE"])
    return results


def main(folders):
    failed = 0
    for folder in folders:
        results = read(folder)
        checks = sum(count for count, _ in results.values())
        bad = sum(len(failures) for _, failures in results.values())
        print(f"{folder}: {len(results)} scenarios, {checks - bad} of {checks} checks passed")
        for name, (count, failures) in results.items():
            print(f"  {'ok    ' if count and not failures else 'FAILED'} {name} {count - len(failures)}/{count}")
            for failure in failures:
                print(f"         {failure.get('id')}: {failure.get('errorMessage') or failure.get('description')}")
        failed += bad + sum(not count for count, _ in results.values()) + (not results)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
