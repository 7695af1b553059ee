#!/usr/bin/env python3
"""What the conformance suite starts as the client: drives the `piton` of $PITON from outside, as a person would.

The suite gives the server's address as the last argument, and the scenario in MCP_CONFORMANCE_SCENARIO and _CONTEXT. This adds the
server with `piton mcp add`, logs in where the scenario is about that ($BROWSER is this script, too, and follows addresses), lists
the tools, and calls each of them once.
"""
import fcntl
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

HERE = os.path.abspath(__file__)


def browse(url):
    """A browser without a person: follows addresses until there is no next one."""
    try:
        urllib.request.urlopen(url, timeout=20).read()
    except urllib.error.URLError as error:
        print(f"the browser: {error}", file=sys.stderr)


def value(schema, name):
    """A value that a schema takes."""
    if "default" in schema:
        return schema["default"]
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind in ("integer", "number"):
        return {"a": 5, "b": 3}.get(name, 1)
    if kind == "boolean":
        return True
    if kind == "array":
        return []
    if kind == "object":
        return {}
    return "word"


def arguments(tool):
    schema = tool["schema"]
    properties = schema.get("properties", {})
    return {name: value(properties[name] if isinstance(properties.get(name), dict) else {}, name) for name in properties}


class Piton:
    def __init__(self, folder):
        self.folder = folder
        self.env = {
            "PATH": os.environ["PATH"], "HOME": folder, "XDG_DATA_HOME": f"{folder}/data", "XDG_CONFIG_HOME": f"{folder}/config",
            "XDG_STATE_HOME": f"{folder}/state", "XDG_CACHE_HOME": f"{folder}/cache",
            "BROWSER": f"{sys.executable} {HERE} --browse",
        }
        os.makedirs(f"{folder}/workspace")

    def run(self, *words):
        done = subprocess.run([os.environ["PITON"], "mcp", *words], cwd=f"{self.folder}/workspace", env=self.env,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        print(f"$ piton mcp {' '.join(words)} [{done.returncode}]\n{done.stdout}{done.stderr}", file=sys.stderr)
        return done


def entry(url, context):
    entry = {"type": "http", "url": url}
    login = {}
    if context.get("client_id"):
        login["clientId"] = context["client_id"]
    if context.get("client_secret"):
        login["clientSecret"] = context["client_secret"]
    if scenario() == "auth/basic-cimd":
        login["clientId"] = "https://conformance-test.local/client-metadata.json"
    if login:
        entry["oauth"] = login
    return entry


def scenario():
    return os.environ.get("MCP_CONFORMANCE_SCENARIO", "")


def calls(listed, context):
    """What is called: what the suite names, else each tool once. A tool that takes a schema gets that of the other one."""
    if context.get("toolCalls"):
        return [(call["name"], call["arguments"]) for call in context["toolCalls"]]
    if scenario() == "json-schema-2020-12-preservation":
        focal = next(tool for tool in listed if "schema" not in tool["schema"].get("properties", {}))
        echo = next(tool for tool in listed if tool is not focal)
        return [(echo["own_name"], {"schema": focal["schema"]})]
    return [(tool["own_name"], arguments(tool)) for tool in listed]


def insisting(piton, *words):
    """Runs a command, and as a person would, logs in when it says so, and tries again."""
    for _ in range(3):
        done = piton.run(*words)
        if done.returncode == 0 or "piton mcp login" not in done.stdout + done.stderr:
            break
        if piton.run("login", "server").returncode != 0:
            break
    return done


def place(folder):
    """A place among those that run at the same time, kept until this process ends: the suite starts all scenarios at once."""
    files = [open(f"{folder}/place-{number}", "w") for number in range(max(2, os.cpu_count() or 2))]
    while True:
        for file in files:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return file
            except BlockingIOError:
                pass
        time.sleep(0.1)


def main(url):
    _place = place(os.environ["PLACES"])
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    with tempfile.TemporaryDirectory(prefix="piton-conformance-") as folder:
        piton = Piton(folder)
        piton.run("add", "server", json.dumps(entry(url, context)))
        listed = insisting(piton, "test", "server", "--json")
        if listed.returncode != 0:
            return 1
        is_ok = True
        for name, values in calls(json.loads(listed.stdout)["server"]["tools"], context):
            # A person who accepts every form as it is.
            called = insisting(piton, "test", "server", "--json", "--answer", "{}", "--call", name, json.dumps(values))
            is_ok &= called.returncode == 0
        return 0 if is_ok else 1


if __name__ == "__main__":
    if sys.argv[1] == "--browse":
        browse(sys.argv[2])
    else:
        sys.exit(main(sys.argv[-1]))
