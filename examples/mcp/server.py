#!/usr/bin/env python3
"""An MCP server without a library: it counts words. One JSON message a line, in on stdin, out on stdout."""

import json
import sys

TOOL = {
    "name": "count_words",
    "description": "Counts the words of a text.",
    "inputSchema": {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    },
}


def answer(method, params):
    """The result of a request; None if there is no such method."""
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "words", "version": "1"},
            "instructions": "Counts words. Do not count yourself.",
        }
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        words = len(params["arguments"]["text"].split())
        return {"content": [{"type": "text", "text": f"{words} words"}]}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:  # a notification wants no answer
        continue
    result = answer(message["method"], message.get("params", {}))
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    if result is None:
        reply["error"] = {"code": -32601, "message": "no such method"}
    else:
        reply["result"] = result
    print(json.dumps(reply), flush=True)
