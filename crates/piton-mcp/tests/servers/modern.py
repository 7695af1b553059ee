"""A server of the era of 2026-07-28 over stdio: `modern.py [slow] FILE`. It asks by its answers, and goes on as tasks."""
import json
import os
import sys
import time

from base import fail, messages, reply, send, text, tool

slow, file = "slow" in sys.argv, sys.argv[-1]
if slow:
    # Longer than it is waited for before the other era is tried.
    time.sleep(2)


def complete(**result):
    return {"resultType": "complete", **result}


def listed(**result):
    return complete(ttlMs=0, cacheScope="private", **result)


def kept():
    try:
        return json.load(open(file))
    except (OSError, ValueError):
        return {}


def keep(tasks):
    with open(file + ".new", "w") as out:
        json.dump(tasks, out)
    os.replace(file + ".new", file)


def task(id, status, **more):
    return {"taskId": id, "status": status, "createdAt": "2026-11-24T00:00:00Z", "lastUpdatedAt": "2026-11-24T00:00:00Z",
            "ttlMs": None, "pollIntervalMs": 100, **more}


def call(id, params):
    name, state = params["name"], params.get("requestState")
    if name == "asks":
        if state is None:
            reply(id, {"resultType": "input_required", "requestState": "opaque \u00e9 \"state\"", "inputRequests": {
                "who": {"method": "elicitation/create", "params": {"mode": "form", "message": "Who?", "requestedSchema": {
                    "type": "object", "properties": {"name": {"type": "string"}}}}},
                "where": {"method": "roots/list"}}})
        else:
            answers = params.get("inputResponses", {})
            reply(id, complete(**text(json.dumps([state, answers["who"], len(answers["where"]["roots"])], ensure_ascii=False))))
    elif name == "loops":
        reply(id, {"resultType": "input_required", "requestState": "again"})
    elif name == "task":
        tasks = kept()
        tasks["t1"] = 0
        keep(tasks)
        reply(id, {"resultType": "task", **task("t1", "working")})
        if (params.get("arguments") or {}).get("word") == "die":
            sys.exit(9)
    elif name == "long_task":
        # It is finished when somebody says so in a file.
        with open(file + ".made", "a") as made:
            made.write("x")
        reply(id, {"resultType": "task", **task("t2", "working")})
    else:
        reply(id, complete(**text("it works")))


for message in messages():
    method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
    meta = params.get("_meta", {})
    if method == "server/discover":
        reply(id, listed(supportedVersions=["2026-07-28"], capabilities={
            "tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}, instructions="be modern"))
    elif method and id is not None and meta.get("io.modelcontextprotocol/protocolVersion") != "2026-07-28":
        fail(id, -32602, f"{method} without a version")
    elif method == "tools/list":
        # One that is none beside others, in an answer that looks like others, too.
        reply(id, listed(tools=[tool("works"), tool("asks"), tool("loops"), tool("task"), tool("long_task"), {"name": "broken"}]))
    elif method == "tools/call":
        call(id, params)
    elif method == "tasks/get" and params["taskId"] == "t2":
        with open(file + ".looked", "w") as looked:
            looked.write("x")
        is_over = os.path.exists(file + ".finish")
        more = {"result": text("it was long")} if is_over else {}
        reply(id, complete(**task("t2", "completed" if is_over else "working", **more)))
    elif method == "tasks/get":
        tasks = kept()
        looks = tasks.get(params["taskId"])
        if looks is None:
            fail(id, -32602, "no such task")
            continue
        tasks[params["taskId"]] = looks + 1
        keep(tasks)
        if looks < 2:
            reply(id, complete(**task(params["taskId"], "working", statusMessage=f"look {looks}")))
        elif tasks.get("answer") is None:
            reply(id, complete(**task(params["taskId"], "input_required", inputRequests={
                "who": {"method": "elicitation/create", "params": {"mode": "form", "message": "Who?", "requestedSchema": {
                    "type": "object", "properties": {"name": {"type": "string"}}}}}})))
        else:
            reply(id, complete(**task(params["taskId"], "completed", result=text(f"done for {tasks['answer']}"))))
    elif method == "tasks/update":
        tasks = kept()
        tasks["answer"] = params["inputResponses"]["who"]["content"]["name"]
        keep(tasks)
        reply(id, complete())
    elif method == "tasks/cancel":
        with open(file + ".cancelled", "w") as cancelled:
            cancelled.write(params["taskId"])
        reply(id, complete())
    elif id is not None:
        fail(id, -32601, "unknown method")
