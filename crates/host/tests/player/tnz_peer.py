"""tnz as a client of the player: does the steps of its standard input, and prints what the screen
showed before the last key.

One JSON object: host, port, device, rows, columns, and steps, of which each is
{"see": [row, column, text]}, {"fill": [row, column, text]} or {"press": aid}.
"""

import json
import sys
import time

from tnz.tnz import Tnz

PATIENCE = 20


def wait_for(terminal, holds, what):
    end = time.monotonic() + PATIENCE
    while not holds():
        if terminal.seslost:
            sys.exit(f"the connection ended before {what}: {terminal.seslost}")
        left = end - time.monotonic()
        if left <= 0:
            sys.exit(f"{what} did not come")
        terminal.wait(timeout=left)


def is_free(terminal):
    return not terminal.pwait and not terminal.system_lock_wait


def screen(terminal):
    # Nulls and attributes are blanks, as on a screen.
    shown = terminal.scrstr(rstrip=False).replace("\0", " ")
    return [shown[at : at + terminal.maxcol] for at in range(0, len(shown), terminal.maxcol)]


def shows(terminal, row, column, text):
    rows = screen(terminal)
    return row <= len(rows) and rows[row - 1][column - 1 :].startswith(text)


def main():
    order = json.load(sys.stdin)
    terminal = Tnz(name="player")
    terminal.terminal_type = order["device"]
    terminal.amaxrow, terminal.amaxcol = order["rows"], order["columns"]
    terminal.use_tn3270e = True
    terminal.encoding = "cp037"
    terminal.connect(order["host"], order["port"])
    last = []
    for step in order["steps"]:
        [(verb, what)] = step.items()
        wait_for(terminal, lambda: is_free(terminal), f"a free keyboard for {step}")
        if verb == "see":
            row, column, text = what
            wait_for(terminal, lambda: shows(terminal, row, column, text), f"{text!r}")
        elif verb == "fill":
            row, column, text = what
            terminal.set_cursor_position(row, column)
            terminal.key_eraseeof()
            terminal.key_data(text)
        else:
            last = screen(terminal)
            terminal.key_aid(what)
    # The recording is at its end when the host goes away, or has answered the last key.
    end = time.monotonic() + PATIENCE
    while not terminal.seslost and not is_free(terminal) and time.monotonic() < end:
        terminal.wait(timeout=end - time.monotonic())
    print(json.dumps(last))
    terminal.shutdown()


main()
