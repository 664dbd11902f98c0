"""The other end of tests/pyas2lib.rs: pyas2lib as a peer that works on lines of standard input.

Each line is a command and its words; binary words are base64, "-" is nothing. Each answer is one
line, too:

  send SIGN ENCRYPT COMPRESS RECEIPT PAYLOAD TYPE   ->  MESSAGE MIC ID
  receive SIGN ENCRYPT MESSAGE                      ->  STATUS PAYLOAD MIC RECEIPT ERROR
  receipt ID MESSAGE                                ->  STATUS DETAIL

SIGN and RECEIPT are a digest, "-" or, for RECEIPT, "unsigned"; a SIGN may end with "+pss". ENCRYPT
is a cipher or "-"; COMPRESS is "yes" or "-". A MESSAGE is the header of HTTP and the body behind it.
"""

import base64
import logging
import re
import sys
import warnings
from pathlib import Path

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

from pyas2lib.as2 import Mdn, Message, Organization, Partner  # noqa: E402

logging.disable(logging.CRITICAL)

folder = Path(sys.argv[1])
own = (folder / "python.pem").read_bytes()
station = Organization(as2_name="Python", sign_key=own, decrypt_key=own, domain="python.example")
certificate = (folder / "rust.crt").read_bytes()
sent = {}


def partner(**settings):
    return Partner(
        as2_name="Rust Company",
        verify_cert=certificate,
        encrypt_cert=certificate,
        **settings,
    )


def encoded(data):
    return base64.b64encode(data).decode() if data else "-"


def word(text):
    return "-" if text is None else base64.b64encode(str(text).encode()).decode()


def send(sign, encrypt, compress, receipt, payload, kind):
    settings = {"compress": compress == "yes", "sign": sign != "-", "encrypt": encrypt != "-"}
    if sign != "-":
        settings["digest_alg"], _, pss = sign.partition("+")
        settings["sign_alg"] = "rsassa_pss" if pss else "rsassa_pkcs1v15"
    if encrypt != "-":
        settings["enc_alg"] = encrypt
    if receipt != "-":
        settings["mdn_mode"] = "SYNC"
    if receipt not in ("-", "unsigned"):
        settings["mdn_digest_alg"] = receipt
    message = Message(station, partner(**settings))
    message.build(base64.b64decode(payload), filename="an order.edi", content_type=kind)
    sent[message.message_id] = message
    whole = message.headers_str + b"\r\n" + message.content
    mic = message.mic.decode() if message.mic else "-"
    return [encoded(whole), mic, word(message.message_id)]


def receive(sign, encrypt, raw):
    settings = {"sign": sign != "-", "encrypt": encrypt != "-"}
    message = Message()
    status, (error, _), mdn = message.parse(
        base64.b64decode(raw),
        find_org_cb=lambda name: station if name == station.as2_name else None,
        find_partner_cb=lambda name: partner(**settings) if name == "Rust Company" else None,
    )
    receipt = mdn.headers_str + b"\r\n" + mdn.content if mdn else b""
    mic = message.mic.decode() if message.mic else "-"
    content = message.content if not error else b""
    return [word(status), encoded(content), mic, encoded(receipt), word(error)]


def receipt(identity, raw):
    message = sent.get(base64.b64decode(identity).decode())
    status, detail = Mdn().parse(base64.b64decode(raw), lambda id, _: sent.get(id))
    assert message is not None
    return [word(status), word(detail)]


COMMANDS = {"send": send, "receive": receive, "receipt": receipt}
for line in sys.stdin:
    command, *words = line.split()
    print(*COMMANDS[command](*words), flush=True)
