#!/usr/bin/env python3
"""Draws docs/demo.svg and docs/resume.svg from real runs of the release binary on a pseudo-terminal.

    cargo build --release && python3 docs/dev/picture.py

Only the names of temporary folders, ids and process numbers are shortened, so that a picture changes only when the output
does.
"""

import fcntl, html, json, os, pathlib, pty, re, shutil, struct, tempfile, termios

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
COLUMNS, ROWS = 104, 60
CHAR_WIDTH, LINE_HEIGHT, MARGIN, TITLE = 8.4, 19, 18, 30
PROMPT = "\x1b[32m$\x1b[0m \x1b[1m{}\x1b[0m\n"
COLOURS = {31: "#f07178", 32: "#a5d6a7", 33: "#ffcb6b"}


# What the model says in the second picture: one command that takes a while, then an answer.
TIDY = """echo sorting...; sort -u notes.txt -o notes.txt; rm -f old.txt; for i in 1 2 3 4; do sleep 1; echo $i of 4; done; wc -l notes.txt"""
CASSETTE = [
    {"cassette": 1, "about": "sorts notes with a slow command"},
    {"text": "I sort the notes and remove the old file.", "calls": [{"name": "bash", "input": {"command": TIDY}}]},
    {"text": "notes.txt is sorted and has 3 lines; old.txt is gone."},
]
# A person at a shell; the second line pulls the plug while the command runs.
RESUME = """\
ls; cat notes.txt
piton run --yes --model recorded/.tidy.jsonl "Sort my notes, remove old.txt" & sleep 2.5; kill -9 $!
piton run --continue --yes
ls; cat notes.txt
piton undo
ls; cat notes.txt
piton redo
ls
"""


def play(program, arguments, environment, folder):
    """What a program writes to a terminal, escape sequences and all."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve(program, arguments, environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    said = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # Linux reports the end of a terminal as an error.
            piece = b""
        if not piece:
            break
        said += piece
    _, status = os.waitpid(pid, 0)
    text = said.decode().replace("\r\n", "\n")
    # What is killed does not end its line.
    text += "" if text.endswith("\n") or not text else "\n"
    if status != 0:
        raise SystemExit("it failed:\n" + text)
    return text


def environment(data):
    path = f"{ROOT}/target/release:{os.environ['PATH']}"
    kept = {**os.environ, "PITON_DATA_DIR": data, "TERM": "xterm-256color", "PATH": path}
    return {name: value for name, value in kept.items() if name not in ("NO_COLOR", "PITON_CONFIG")}


def shorten(text, data):
    text = text.replace(data, "~/.local/share/piton")
    text = re.sub(r"/tmp/piton-demo-\w+", "/tmp/piton-demo", text)
    text = re.sub(r"\(process \d+\)", "(process 4711)", text)
    return re.sub(r"ses_[0-9a-f]{32}", "ses_01a1fd…", text)


def demo():
    data = tempfile.mkdtemp()
    program = str(ROOT / "target/release/piton")
    return PROMPT.format("piton demo") + shorten(play(program, [program, "demo"], environment(data), "/"), data)


def resume():
    """A run that is killed in the middle, goes on, is taken back and brought back."""
    data, folder = tempfile.mkdtemp(), tempfile.mkdtemp()
    around = {**environment(data), "HOME": data}
    notes = pathlib.Path(folder)
    (notes / "notes.txt").write_text("pears\napples\npears\nfigs\n")
    (notes / "old.txt").write_text("last year\n")
    (notes / ".tidy.jsonl").write_text("\n".join(map(json.dumps, CASSETTE)) + "\n")
    shell = shutil.which("bash")
    said = ""
    for line in RESUME.splitlines():
        said += PROMPT.format(line) + play(shell, ["bash", "-c", line], around, folder)
    return re.sub(r"bash: line 1: +\d+ Killed.*\n", "[the process was killed]\n", shorten(said, data))


def screen(text):
    """The lines that are left on the screen: each a list of (character, style)."""
    lines, style, column = [[]], frozenset(), 0
    for escape, letter, character in re.findall(r"\x1b\[([0-9;]*)([a-zA-Z])|([^\x1b])", text):
        line = lines[-1]
        if letter == "m":
            for code in map(int, (escape or "0").split(";")):
                style = frozenset() if code == 0 else style | {code}
        elif letter == "K":
            del line[column:]
        elif character == "\r":
            column = 0
        elif character == "\n" or (character and column == COLUMNS):
            lines.append([] if character == "\n" else [(character, style)])
            column = len(lines[-1])
        elif character:
            line[column:column + 1] = [(character, style)]
            column += 1
    while lines and not lines[-1]:
        lines.pop()
    return lines


def span(text, style):
    colour = next((COLOURS[code] for code in style if code in COLOURS), None)
    attributes = f' fill="{colour}"' if colour else ""
    attributes += ' font-weight="bold"' if 1 in style else ""
    attributes += ' opacity="0.55"' if 2 in style else ""
    # Not every viewer keeps plain spaces as they are.
    text = html.escape(text, quote=False).replace(" ", "\u00a0")
    return f"<tspan{attributes}>{text}</tspan>" if attributes else text


def draw(lines):
    width, height = COLUMNS * CHAR_WIDTH + 2 * MARGIN, len(lines) * LINE_HEIGHT + 2 * MARGIN + TITLE
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
           f'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="14">')
    yield f'<rect width="100%" height="100%" rx="10" fill="#16181d"/>'
    for at, colour in enumerate(["#ff5f57", "#febc2e", "#28c840"]):
        yield f'<circle cx="{MARGIN + 6 + at * 20}" cy="20" r="6" fill="{colour}"/>'
    yield '<g fill="#d7dae0">'
    for row, line in enumerate(lines):
        spans, run = [], []
        for character, style in line + [(None, None)]:
            if run and (character is None or style != run[-1][1]):
                spans.append(span("".join(c for c, _ in run), run[0][1]))
                run = []
            run.append((character, style))
        y = MARGIN + TITLE + (row + 0.8) * LINE_HEIGHT
        yield f'<text x="{MARGIN}" y="{y:.0f}">{"".join(spans)}</text>'
    yield "</g></svg>"


if __name__ == "__main__":
    for name, scene in {"demo": demo, "resume": resume}.items():
        (ROOT / f"docs/{name}.svg").write_text("\n".join(draw(screen(scene()))) + "\n")
