#!/usr/bin/env python3
"""Measures an agent's terminal interface from outside, through a pseudo-terminal.

    xtask/terminal/measure.py [--idle SECONDS] [--also long,escape,resize] [--files N] -- COMMAND...
    xtask/terminal/measure.py --start -- COMMAND...

A provider of Chat Completions of its own answers at $OPENAI_BASE_URL, which COMMAND finds in its environment (for another
agent, configure that address in it). Prints one JSON object: milliseconds to the first byte and to the prompt, from a key
to its echo (idle, and while text streams), bytes written per byte of text, frames a second, bytes and CPU while idle, memory at the prompt
and after the text. Standard library only.

--also measures more in the same session: `long`, 10 MB of text in two answers and then key to echo and memory; `escape`, from Esc
until the process of a running command is gone (COMMAND must run commands without asking); `resize`, from a new size until
the last byte of what is drawn for it. --files N makes a folder with so many files, starts COMMAND in it and measures from
the last key of `@words` to the first hit, at once and when the folder was read. --start measures the start alone, ten
times: of a session that is resumed, say.
"""

import argparse, fcntl, http.server, json, os, pty, re, select, shutil, signal, statistics, struct, sys, tempfile, termios
import threading, time

# 5 MB an answer: of a single one of 10 MB an agent may say that it has no end.
LONG_PIECES, LONG_ANSWERS, SLEEP = 80, 2, "sleep 98765"
TEXT_PIECES, PIECE = 2200, "Some words of an answer that goes on and on. "


class Provider(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answers = 0

    def log_message(self, *words):
        pass

    def do_GET(self):
        body = b'{"data":[{"id":"m"}]}'
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        said = json.dumps([message for message in body["messages"] if message["role"] == "user"][-1])
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        try:
            if "run a command" in said and body["messages"][-1]["role"] == "user":
                arguments = json.dumps({"command": SLEEP, "description": "waits"})
                call = {"index": 0, "id": "call_1", "function": {"name": "bash", "arguments": arguments}}
                self.say({"tool_calls": [call]})
                self.say({}, "tool_calls", {"prompt_tokens": 1000, "completion_tokens": 20})
            else:
                self.text(LONG_PIECES if "a long answer" in said else 0)
                self.say({}, "stop", {"prompt_tokens": 1000, "completion_tokens": 20000})
            self.wfile.write(b"data: [DONE]\n\n")
            Provider.answers += 1
        except OSError:
            pass
        self.close_connection = True

    def text(self, long_pieces):
        for number in range(long_pieces):
            self.say({"content": (PIECE * 20 + "\n\n") * 73})
        for number in range(0 if long_pieces else TEXT_PIECES):
            end = "\n\n" if number % 20 == 19 else ""
            self.say({"content": PIECE + end})
            time.sleep(0.005)

    def say(self, delta, finish=None, usage=None):
        event = {"id": "x", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        if usage:
            event["usage"] = usage
        self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        self.wfile.flush()


class Seat:
    def __init__(self, command, environment, folder="."):
        self.began = time.monotonic()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(command[0], command, environment)
        self.seen = b""
        self.resize(30, 100)

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

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


def is_running(words):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if open(f"/proc/{pid}/cmdline").read().split("\0")[:2] == words.split():
                return True
        except OSError:
            pass
    return False


def long(seat, args, result):
    """Ten megabytes of text, and what a key takes behind them."""
    seconds = 0
    for _ in range(LONG_ANSWERS):
        answers, began, last, drawn = Provider.answers, time.monotonic(), None, True
        os.write(seat.fd, b"a long answer\r")
        # All of it is told, and nothing more is drawn.
        while Provider.answers == answers or drawn:
            drawn = seat.read(0.5)[1]
            last = drawn or last
            if time.monotonic() > began + 300:
                sys.exit("the long answer was never told whole")
        seconds += (last or began) - began
        seat.seen = b""
    result["long_seconds"] = round(seconds, 1)
    result["echo_long_ms"] = quantiles(seat.echoes(100, 0.02))
    os.write(seat.fd, b"\x15")
    seat.read(1)
    result["pss_mb_long"] = round(seat.pss_mb(), 1)


def escape(seat, args, result):
    """From Esc until the process is gone, five times."""
    times = []
    for _ in range(5):
        os.write(seat.fd, b"run a command\r")
        end = time.monotonic() + 30
        while not is_running(SLEEP):
            seat.read(0.05)
            if time.monotonic() > end:
                sys.exit("the command never ran; does COMMAND ask first?")
        seat.read(0.5)
        began = time.monotonic()
        os.write(seat.fd, b"\x1b")
        while is_running(SLEEP):
            seat.read(0.001)
            if time.monotonic() > began + 10:
                sys.exit("the command outlived Esc by 10 s")
        times.append((time.monotonic() - began) * 1000)
        seat.read(1)
        os.write(seat.fd, b"\x15")
    result["escape_gone_ms"] = quantiles(times)


def resize(seat, args, result):
    """From a new size until the last byte of what is drawn for it, ten times."""
    times = []
    for number in range(10):
        seat.read(0.5)
        began = time.monotonic()
        seat.resize(30, 100 if number % 2 else 80)
        _, last = seat.read(0.4)
        times.append(((last or began) - began) * 1000)
    result["resize_ms"] = quantiles(times)


def files(args, environment):
    """From typing `@words` to the first hit in a folder of many files."""
    folder = tempfile.mkdtemp(prefix="piton-files-")
    try:
        for number in range(args.files):
            if number % 500 == 0:
                below = os.path.join(folder, f"part{number // 50000}", f"folder{number // 500}")
                os.makedirs(below)
            os.close(os.open(os.path.join(below, f"module_{number}.rs"), os.O_CREAT | os.O_WRONLY))
        result, seat = {"files": args.files}, Seat(args.command, environment, folder)
        seat.until(args.prompt.encode(), 60)
        for when, pause in [("at_once", 0), ("read", 15)]:
            seat.read(pause)
            seat.seen, began = b"", time.monotonic()
            os.write(seat.fd, b"@module_1")
            while not re.search(rb"module_1\d+\.rs", seat.seen) and time.monotonic() < began + 10:
                seat.read(0.001)
            result[f"first_hit_{when}_ms"] = round((time.monotonic() - began) * 1000, 1)
            os.write(seat.fd, b"\x15")
            seat.read(1)
        os.kill(seat.pid, signal.SIGTERM)
        return result
    finally:
        shutil.rmtree(folder)


def starts(args, environment):
    """The start alone, ten times."""
    first, prompt = [], []
    for _ in range(10):
        seat = Seat(args.command, environment)
        while not seat.seen:
            seat.read(0.001)
        first.append((time.monotonic() - seat.began) * 1000)
        prompt.append(seat.until(args.prompt.encode(), 30))
        os.kill(seat.pid, signal.SIGTERM)
        os.waitpid(seat.pid, 0)
        os.close(seat.fd)
    return {"first_byte_ms": quantiles(first), "prompt_ms": quantiles(prompt)}


def quantiles(times):
    times = sorted(times)
    return {"p50": round(statistics.median(times), 2), "p99": round(times[min(len(times) - 1, int(len(times) * 0.99))], 2)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--idle", type=float, default=10)
    parser.add_argument("--prompt", default="? keys", help="text on the screen once it takes words")
    parser.add_argument("--done", default="tokens", help="text on the screen once the answer is whole")
    parser.add_argument("--also", default="", help="long, escape, resize: separated by commas")
    parser.add_argument("--files", type=int, default=0, help="measure @ in a folder of so many files")
    parser.add_argument("--start", action="store_true", help="measure the start alone")
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = {**os.environ, "OPENAI_BASE_URL": f"http://127.0.0.1:{server.server_port}/v1", "OPENAI_API_KEY": "sk-x"}
    environment.update(TERM="xterm-256color")
    if args.files:
        return print(json.dumps(files(args, environment), indent=1))
    if args.start:
        return print(json.dumps(starts(args, environment), indent=1))
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
    streams = time.monotonic()
    seat.read(1)
    result["echo_streaming_ms"] = quantiles(seat.echoes(100, 0.02))
    os.write(seat.fd, b"\x15")
    seat.until(args.done.encode(), 120)
    text = TEXT_PIECES * len(PIECE)
    result["bytes_per_byte_of_text"] = round(len(seat.seen) / text, 2)
    # Of a terminal that is told when frames begin; while keys are pressed, each has a frame of its own.
    seconds = max(time.monotonic() - streams, 1)
    result["frames_per_second"] = round(seat.seen.count(b"\x1b[?2026h") / seconds, 1)
    result["pss_mb_after"] = round(seat.pss_mb(), 1)
    for more in filter(None, args.also.split(",")):
        {"long": long, "escape": escape, "resize": resize}[more](seat, args, result)
    os.kill(seat.pid, signal.SIGTERM)
    print(json.dumps(result, indent=1))


main()
