# aiosmtpd as a server of mail submission: FOLDER CERTIFICATE; prints its port. It takes messages under
# STARTTLS from the user 'us' with the password 'pa ss' only, refuses 'nobody@example.com', and
# writes each message that it takes into a file of FOLDER, below a line for each recipient.
import asyncio
import ssl
import sys
from pathlib import Path

from aiosmtpd.smtp import SMTP, AuthResult

folder, certificate = Path(sys.argv[1]), sys.argv[2]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate)


def authenticate(server, session, envelope, mechanism, data):
    known = (data.login, data.password) == (b"us", b"pa ss")
    return AuthResult(success=known, handled=known)


class Handler:
    count = 0

    async def handle_RCPT(self, server, session, envelope, address, options):
        if address == "nobody@example.com":
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 ok"

    async def handle_DATA(self, server, session, envelope):
        self.count += 1
        to = "".join(f"{address}\n" for address in envelope.rcpt_tos)
        part = folder / f"{self.count}.part"
        part.write_bytes(to.encode() + b"\n" + envelope.content)
        part.rename(folder / f"{self.count}.eml")
        return "250 taken"


handler = Handler()


async def serve():
    def session():
        return SMTP(
            handler,
            hostname="localhost",
            tls_context=context,
            require_starttls=True,
            auth_required=True,
            authenticator=authenticate,
        )

    server = await asyncio.get_running_loop().create_server(session, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(serve())
