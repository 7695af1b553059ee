#!/usr/bin/env python3
"""Draws docs/demo.svg from a real run of `piton demo` on a pseudo-terminal.

    cargo build --release && python3 docs/picture.py

Only the names of temporary folders are shortened, so that the picture changes only when the output does.
"""

import fcntl, html, os, pathlib, pty, re, struct, tempfile, termios

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS, ROWS = 104, 60
CHAR_WIDTH, LINE_HEIGHT, MARGIN, TITLE = 8.4, 19, 18, 30
COLOURS = {31: "#f07178", 32: "#a5d6a7", 33: "#ffcb6b"}


def run():
    """What `piton demo` writes to a terminal, escape sequences and all."""
    data = tempfile.mkdtemp()
    pid, terminal = pty.fork()
    if pid == 0:
        environment = {**os.environ, "PITON_DATA_DIR": data, "TERM": "xterm-256color"}
        environment.pop("NO_COLOR", None)
        program = str(ROOT / "target/release/piton")
        os.execve(program, [program, "demo"], environment)
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
    if status != 0:
        raise SystemExit("the demo failed:\n" + said.decode())
    text = said.decode().replace("\r\n", "\n").replace(data, "~/.local/share/piton")
    return re.sub(r"/tmp/piton-demo-\w+", "/tmp/piton-demo", re.sub(r"ses_[0-9a-f]{32}", "ses_01a1fd…", text))


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
    prompt = "\x1b[32m$\x1b[0m \x1b[1mpiton demo\x1b[0m\n"
    picture = "\n".join(draw(screen(prompt + run()))) + "\n"
    (ROOT / "docs/demo.svg").write_text(picture)
