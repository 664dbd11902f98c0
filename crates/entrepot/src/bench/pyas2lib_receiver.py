"""The receiver of `entrepot bench as2 --pyas2lib`: processes that take messages over HTTP, one after
the other and each on a connection of its own, and answer with the receipt that pyas2lib makes.
Nothing is stored.

The first line of standard input is a document of JSON that says who the two sides are; the answer
is a line with the version of pyas2lib and the port. All of it ends when standard input ends.
"""

import json
import logging
import os
import re
import socket
import sys
import threading
import warnings
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version

# oscrypto 1.3.0 finds no version in "OpenSSL 3.0.10" and later: its pattern has one digit where
# there are two.
_search = re.search


def _search_wider(pattern, text, *flags):
    if pattern == "\\b(\\d\\.\\d\\.\\d[a-z]*)\\b":
        pattern = "\\b(\\d+\\.\\d+\\.\\d+[a-z]*)\\b"
    return _search(pattern, text, *flags)


re.search = _search_wider
warnings.simplefilter("ignore")
import oscrypto._openssl._libcrypto  # noqa: E402, F401

re.search = _search

from pyas2lib.as2 import Message, Organization, Partner  # noqa: E402

logging.disable(logging.CRITICAL)

setup = json.loads(sys.stdin.buffer.raw.readline())
station_pem = (setup["certificate"] + setup["key"]).encode()
station = Organization(as2_name=setup["to"], sign_key=station_pem, decrypt_key=station_pem)
partner_pem = setup["partner"].encode()
partner = Partner(as2_name=setup["from"], verify_cert=partner_pem, encrypt_cert=partner_pem)


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        head = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
        message = Message()
        _, _, receipt = message.parse(
            head.encode() + b"\r\n" + body,
            find_org_cb=lambda name: station if name == station.as2_name else None,
            find_partner_cb=lambda name: partner if name == partner.as2_name else None,
        )
        content = receipt.content if receipt else b""
        self.send_response(200)
        for name, value in receipt.headers.items() if receipt else ():
            self.send_header(name, " ".join(value.split()))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


class Server(HTTPServer):
    # Connections that wait until a process has time for them.
    request_queue_size = socket.SOMAXCONN


def wait_for_the_end():
    while os.read(0, 1):
        pass


def serve(server):
    # Also where the first process was killed: standard input ends with who holds its other side.
    threading.Thread(target=lambda: (wait_for_the_end(), os._exit(0)), daemon=True).start()
    server.serve_forever(poll_interval=60)


server = Server(("127.0.0.1", 0), Receiver)
workers = []
for _ in range(setup["processes"]):
    worker = os.fork()
    if worker == 0:
        serve(server)
    workers.append(worker)
print(version("pyas2lib"), server.server_port, flush=True)
wait_for_the_end()
for worker in workers:
    os.waitpid(worker, 0)
