#!/usr/bin/env python3
"""Stands between sshd and OpenSSH's sftp-server and spoils one RENAME.

Arguments: a file with the plan, then the command of the real server. The plan is `PASS FAULT`: how
many RENAME requests pass unharmed, and what happens to the next one:

refuse  the server is not asked, the answer is SSH_FX_FAILURE
before  the connection ends before the server is asked
after   the server carries it out, and the connection ends before its answer

The plan is removed when it was carried out. Without a plan everything passes.
"""

import os
import struct
import subprocess
import sys
import threading

RENAME = 18
STATUS = 101
FAILURE = 4


def packets(stream):
    """Whole packets as they come, each without its length."""
    while True:
        head = stream.read(4)
        if len(head) < 4:
            return
        yield stream.read(struct.unpack(">I", head)[0])


def send(stream, packet):
    stream.write(struct.pack(">I", len(packet)) + packet)
    stream.flush()


def fault_of(plan):
    """What to do to this RENAME."""
    try:
        with open(plan) as file:
            passing, fault = file.read().split()
    except FileNotFoundError:
        return None
    if int(passing) > 0:
        with open(plan, "w") as file:
            file.write(f"{int(passing) - 1} {fault}")
        return None
    os.remove(plan)
    return fault


def main():
    plan, command = sys.argv[1], sys.argv[2:]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    lock = threading.Lock()
    muted = threading.Event()
    silenced = threading.Event()

    def answers():
        for packet in packets(server.stdout):
            if muted.is_set():
                silenced.set()
                return
            with lock:
                send(sys.stdout.buffer, packet)

    threading.Thread(target=answers, daemon=True).start()
    for packet in packets(sys.stdin.buffer):
        fault = fault_of(plan) if packet[0] == RENAME else None
        if fault == "refuse":
            with lock:
                request = packet[1:5]
                text = b"refused"
                status = bytes([STATUS]) + request + struct.pack(">II", FAILURE, len(text))
                send(sys.stdout.buffer, status + text + struct.pack(">I", 0))
            continue
        if fault == "before":
            break
        if fault == "after":
            muted.set()
        send(server.stdin, packet)
        if fault == "after":
            silenced.wait()
            break
    server.kill()
    os._exit(0)


main()
