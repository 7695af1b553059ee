"""An MCP server over streamable HTTP, with its own authorization server beside it: `web.py [WHAT...]`. Prints its port.

WHAT: `login` (wants a token), `short` (tokens end at once), `rejects` (tokens are never renewed), `redirects`,
`steps` (one tool wants more scopes), `forgets` (no longer knows a session when its first call comes), `hangs_up` (drops the connection in a call), `html`, `sse` (speaks the transport of 2024-11-05),
`status=N` (answers everything with that), `not_json`, `cuts` (closes the connection before an answer), `sleeps` (never answers), `refuses`;
`call=N`, `call=html` and `call=not_json` the same for a call of a tool only.
"""
import base64
import hashlib
import json
import queue
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

what = set(sys.argv[1:])
codes, tokens, refresh_tokens, log, sessions = {}, {}, {}, [], []
lock = threading.Lock()
answers = queue.Queue()


def origin():
    return f"http://127.0.0.1:{server.server_port}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", kind="application/json", **headers):
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_DELETE(self):
        self.answer(405)

    def do_GET(self):
        url = urllib.parse.urlparse(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        if url.path == "/log":
            self.answer(200, log)
        elif "redirects" in what:
            self.answer(307, Location="http://127.0.0.1:1/elsewhere")
        elif url.path.startswith("/.well-known/oauth-protected-resource"):
            self.answer(200, {"resource": origin() + "/mcp", "authorization_servers": [origin()]})
        elif url.path.startswith("/.well-known/oauth-authorization-server"):
            self.answer(200, {
                "issuer": origin(), "authorization_endpoint": origin() + "/authorize", "token_endpoint": origin() + "/token",
                "registration_endpoint": origin() + "/register", "code_challenge_methods_supported": ["S256"],
                "response_types_supported": ["code"], "token_endpoint_auth_methods_supported": ["none"],
                "authorization_response_iss_parameter_supported": True})
        elif url.path == "/authorize":
            code = f"code{len(codes)}"
            codes[code] = query
            back = {"code": code, "state": query["state"], "iss": origin()}
            if "denies" in what:
                back = {"error": "access_denied", "error_description": "no \x1b[31mway", "state": query["state"]}
            self.answer(302, Location=query["redirect_uri"] + "?" + urllib.parse.urlencode(back))
        elif url.path == "/mcp" and "sse" in what:
            self.events()
        else:
            self.answer(405)

    def events(self):
        """The stream of the old transport: answers come here, whatever is posted beside it."""
        if self.headers.get("Authorization", "").removeprefix("Bearer ") not in tokens:
            return self.answer(401, {"error": "no"})
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(b"event: endpoint\ndata: /mcp\n\n")
        self.close_connection = True
        try:
            while True:
                self.wfile.write(b"event: message\ndata: " + json.dumps(answers.get()).encode() + b"\n\n")
        except OSError:
            pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/register":
            log.append("register")
            self.answer(201, {"client_id": "us", **json.loads(body)})
        elif self.path == "/token":
            self.token(dict(urllib.parse.parse_qsl(body.decode())))
        elif "redirects" in what:
            self.answer(307, Location="http://127.0.0.1:1/elsewhere")
        elif "cuts" in what:
            self.close_connection = True
            self.connection.close()
        elif "sleeps" in what:
            time.sleep(1000)
        elif not self.fails("") and not (json.loads(body).get("method") == "tools/call" and self.fails("call=")):
            self.mcp(json.loads(body))

    def fails(self, when):
        """Answers with what is no answer, where that is wanted."""
        status = [int(word.rpartition("=")[2]) for word in what if word.startswith(when or "status=") and word[-1].isdigit()]
        if status:
            self.answer(status[0], b"no \x1b[31mway", kind="text/plain")
        elif when + "html" in what:
            self.answer(200, b"<p>hello\x1b[31m", kind="text/html")
        elif when + "not_json" in what:
            self.answer(200, b"hello \x1b[31mthere")
        return bool(status) or when + "html" in what or when + "not_json" in what

    def token(self, form):
        with lock:
            log.append(form["grant_type"])
            if form["resource"] != origin() + "/mcp":
                return self.answer(400, {"error": "invalid_target"})
            if form["grant_type"] == "authorization_code":
                asked = codes.pop(form["code"])
                proof = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).decode().rstrip("=")
                if proof != asked["code_challenge"] or form["client_id"] != "us":
                    return self.answer(400, {"error": "invalid_grant"})
                scope = asked.get("scope", "")
            else:
                # Each is good once: of two processes that renew at once, one would be locked out.
                scope = refresh_tokens.pop(form["refresh_token"], None)
                if scope is None or "rejects" in what:
                    return self.answer(400, {"error": "invalid_grant"})
            token, refresh = f"token{len(log)}", f"refresh{len(log)}"
            if "steps" not in what:
                tokens.clear()
            tokens[token], refresh_tokens[refresh] = scope, scope
        ends = 0 if "short" in what or "rejects" in what else 3600
        self.answer(200, {"access_token": token, "token_type": "Bearer", "expires_in": ends, "refresh_token": refresh,
                          "scope": scope})

    def mcp(self, message):
        method, id = message.get("method"), message.get("id")
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        log.append(f"{method} {'with' if token else 'without'} a token")
        if ("login" in what or "short" in what or "rejects" in what or "steps" in what) and token not in tokens:
            return self.answer(401, {"error": "no"}, WWW_Authenticate=
                               f'Bearer resource_metadata="{origin()}/.well-known/oauth-protected-resource/mcp"')
        if id is None:
            return self.answer(202)
        if method == "initialize" and "refuses" in what:
            return self.answer(200, {"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": "no licence"}})
        if method == "initialize":
            if "forgets" in what:
                sessions.append(f"session{len(sessions)}")
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "web", "version": "1"}}
        elif method == "tools/list":
            schema = {"type": "object"}
            result = {"tools": [{"name": "echo", "inputSchema": schema}, {"name": "write", "inputSchema": schema},
                                {"name": "broken"}]}
        elif method == "tools/call":
            if "hangs_up" in what:
                self.close_connection = True
                return self.connection.close()
            if "forgets" in what and self.headers.get("Mcp-Session-Id") == "session0":
                return self.answer(404, {"error": "no such session"})
            if "revokes" in what:
                tokens.clear()
                refresh_tokens.clear()
                what.add("login")
                return self.answer(401, {"error": "no"}, WWW_Authenticate="Bearer")
            if message["params"]["name"] == "write" and "steps" in what and "write" not in tokens[token].split():
                return self.answer(403, {"error": "no"}, WWW_Authenticate='Bearer error="insufficient_scope", scope="write"')
            result = {"content": [{"type": "text", "text": "from the web, " + self.headers.get("X-Own", "without a header")}]}
        else:
            return self.answer(200, {"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "unknown method"}})
        if "sse" in what:
            answers.put({"jsonrpc": "2.0", "id": id, "result": result})
            return self.answer(202)
        about = {"Mcp_Session_Id": sessions[-1]} if method == "initialize" and sessions else {}
        self.answer(200, {"jsonrpc": "2.0", "id": id, "result": result}, **about)


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
threading.Thread(target=lambda: (sys.stdin.read(), server.shutdown()), daemon=True).start()
server.serve_forever()
