#!/usr/bin/env python3
"""Prints what the conformance suite has written: a line for each scenario, and each check that failed.

Fails if a check of the core protocol failed. Scenarios of extensions that Piton does not speak are named and not counted: in them a
program logs in by itself, without a person. Of two runs of a scenario the later one counts. `read.py --failed FOLDER` prints only the
names of the scenarios that failed.
"""
import glob
import json
import os
import re
import sys

EXTENSIONS = (
    "auth/client-credentials-", "auth/dpop", "auth/enterprise-managed-authorization", "auth/wif-jwt-bearer", "sep-2640-",
)


def read(folder):
    """By scenario: how many checks there are, and which of them failed."""
    results = {}
    for file in sorted(glob.glob(f"{folder}/**/checks.json", recursive=True)):
        name = re.sub(r"-20\d\d-\d\d-\d\dT.*", "", os.path.relpath(os.path.dirname(file), folder))
        checks = json.load(open(file))
        judged = [check for check in checks if check.get("status") in ("SUCCESS", "FAILURE", "WARNING")]
        results[name] = (len(judged), [check for check in judged if check["status"] == "FAILURE"])
    return results


def is_core(name):
    return not name.startswith(EXTENSIONS)


def has_failed(result):
    count, failures = result
    return not count or bool(failures)


def main(folders):
    failed = 0
    for folder in folders:
        results = read(folder)
        core = {name: result for name, result in results.items() if is_core(name)}
        checks = sum(count for count, _ in core.values())
        bad = sum(len(failures) for _, failures in core.values())
        print(f"{folder}: {len(core)} scenarios, {checks - bad} of {checks} checks passed")
        for name, (count, failures) in results.items():
            word = "not spoken" if name not in core else "FAILED" if has_failed((count, failures)) else "ok"
            print(f"  {word:<10} {name} {count - len(failures)}/{count}")
            for failure in failures if name in core else ():
                print(f"             {failure.get('id')}: {failure.get('errorMessage') or failure.get('description')}")
        failed += bad + sum(not count for count, _ in core.values()) + (not core)
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1] == "--failed":
        print("\n".join(name for name, result in read(sys.argv[2]).items() if is_core(name) and has_failed(result)))
    else:
        sys.exit(main(sys.argv[1:]))
