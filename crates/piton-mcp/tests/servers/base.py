"""An MCP server of the legacy era over stdio, as small as it can be. Scripts beside this one bend it."""
import json
import sys


def send(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def reply(id, result):
    send({"jsonrpc": "2.0", "id": id, "result": result})


def fail(id, code, message):
    send({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})


def text(words, **more):
    return {"content": [{"type": "text", "text": words}], **more}


def tool(name, description="", **more):
    return {"name": name, "description": description, "inputSchema": {"type": "object"}, **more}


def messages():
    """What comes in, until the input is closed."""
    for line in sys.stdin:
        yield json.loads(line)


def ask(id, method, params):
    """Asks the client for something in the middle of a call, and waits for the answer."""
    send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    for message in messages():
        if message.get("id") == id and "method" not in message:
            return message


def serve(tools, call, instructions="", answers=None, capabilities=None):
    """`tools()` is the list, `call(id, name, arguments, params)` answers a call; `answers` has more methods."""
    for message in messages():
        method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
        if method == "initialize":
            reply(id, {
                "protocolVersion": params["protocolVersion"],
                "capabilities": capabilities or {"tools": {"listChanged": True}},
                "serverInfo": {"name": "test", "version": "1"},
                "instructions": instructions,
            })
        elif method == "tools/list":
            reply(id, {"tools": tools()})
        elif method == "tools/call":
            call(id, params["name"], params.get("arguments") or {}, params)
        elif answers and method in answers:
            reply(id, answers[method](params))
        elif method == "ping":
            reply(id, {})
        elif id is not None and method:
            fail(id, -32601, "unknown method")
