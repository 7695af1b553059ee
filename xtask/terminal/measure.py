#!/usr/bin/env python3
"""Measures an agent's terminal interface from outside, through a pseudo-terminal.

    xtask/terminal/measure.py [--idle SECONDS] -- COMMAND...

A provider of Chat Completions of its own answers at $OPENAI_BASE_URL, which COMMAND finds in its environment (for another
agent, configure that address in it). Prints one JSON object: milliseconds to the first byte and to the prompt, from a key
to its echo (idle, and while text streams), bytes written per byte of text, bytes and CPU while idle, memory at the prompt
and after the text. Standard library only.
"""

import argparse, fcntl, http.server, json, os, pty, select, signal, statistics, struct, sys, termios, threading, time

TEXT_PIECES, PIECE = 2200, "Some words of an answer that goes on and on. "


class Provider(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def do_GET(self):
        body = b'{"data":[{"id":"m"}]}'
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        try:
            for number in range(TEXT_PIECES):
                end = "\n\n" if number % 20 == 19 else ""
                self.say({"content": PIECE + end})
                time.sleep(0.005)
            self.say({}, "stop", {"prompt_tokens": 1000, "completion_tokens": 20000})
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            pass
        self.close_connection = True

    def say(self, delta, finish=None, usage=None):
        event = {"id": "x", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        if usage:
            event["usage"] = usage
        self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        self.wfile.flush()


class Seat:
    def __init__(self, command, environment):
        self.began = time.monotonic()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe(command[0], command, environment)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.seen = b""

    def read(self, seconds):
        """What is written within this time, and when the last of it came."""
        end, got, last = time.monotonic() + seconds, b"", None
        while (left := end - time.monotonic()) > 0:
            if not select.select([self.fd], [], [], left)[0]:
                break
            try:
                more = os.read(self.fd, 1 << 16)
            except OSError:
                break
            got, last = got + more, time.monotonic()
            # What a terminal would answer at once.
            if b"\x1b[c" in more:
                os.write(self.fd, b"\x1b[?2026;2$y\x1b[?62;4c")
        self.seen += got
        return got, last

    def until(self, wanted, seconds):
        """Milliseconds from the start until this is on the screen."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if wanted in self.seen:
                return (time.monotonic() - self.began) * 1000
            self.read(0.002)
        sys.exit(f"{wanted!r} was never on the screen: {self.seen[-400:]!r}")

    def echoes(self, count, pause):
        """Milliseconds from a key until it is on the screen, several times."""
        times = []
        for number in range(count):
            letter = b"qzxjkvw"[number % 7 : number % 7 + 1]
            began = time.monotonic()
            os.write(self.fd, letter)
            end, got = began + 1, b""
            while time.monotonic() < end and letter not in got:
                got += self.read(0.001)[0]
            times.append((time.monotonic() - began) * 1000)
            self.read(pause)
        return times

    def cpu(self):
        fields = open(f"/proc/{self.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def pss_mb(self):
        for line in open(f"/proc/{self.pid}/smaps_rollup"):
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
        return 0


def quantiles(times):
    times = sorted(times)
    return {"p50": round(statistics.median(times), 2), "p99": round(times[min(len(times) - 1, int(len(times) * 0.99))], 2)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--idle", type=float, default=10)
    parser.add_argument("--prompt", default="? keys", help="text on the screen once it takes words")
    parser.add_argument("--done", default="tokens", help="text on the screen once the answer is whole")
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = {**os.environ, "OPENAI_BASE_URL": f"http://127.0.0.1:{server.server_port}/v1", "OPENAI_API_KEY": "sk-x"}
    environment.update(TERM="xterm-256color")
    seat = Seat(args.command, environment)
    while not seat.seen:
        seat.read(0.001)
    first = (time.monotonic() - seat.began) * 1000
    result = {"first_byte_ms": round(first, 1), "prompt_ms": round(seat.until(args.prompt.encode(), 30), 1)}
    seat.read(1)
    result["pss_mb_prompt"] = round(seat.pss_mb(), 1)
    result["echo_idle_ms"] = quantiles(seat.echoes(100, 0.02))
    os.write(seat.fd, b"\x15")
    seat.read(0.5)
    cpu = seat.cpu()
    idle, _ = seat.read(args.idle)
    result["idle_bytes"], result["idle_cpu_percent"] = len(idle), round((seat.cpu() - cpu) / args.idle * 100, 2)
    seat.seen = b""
    os.write(seat.fd, b"go\r")
    seat.read(1)
    result["echo_streaming_ms"] = quantiles(seat.echoes(100, 0.02))
    os.write(seat.fd, b"\x15")
    seat.until(args.done.encode(), 120)
    text = TEXT_PIECES * len(PIECE)
    result["bytes_per_byte_of_text"] = round(len(seat.seen) / text, 2)
    result["pss_mb_after"] = round(seat.pss_mb(), 1)
    os.kill(seat.pid, signal.SIGTERM)
    print(json.dumps(result, indent=1))


main()
