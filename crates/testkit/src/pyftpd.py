# pyftpdlib as a server of FOLDER for the user 'partner' with the password 'pa ss': FOLDER CERTIFICATE;
# prints its port. With a certificate (PEM, with its key) TLS is required for all.
import sys
from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import FTPHandler, TLS_FTPHandler
from pyftpdlib.log import config_logging
from pyftpdlib.servers import ThreadedFTPServer

folder, certificate = sys.argv[1:]
config_logging(level=50)
users = DummyAuthorizer()
users.add_user("partner", "pa ss", folder, perm="elradfmwMT")
handler = FTPHandler
if certificate:
    handler = TLS_FTPHandler
    handler.certfile = certificate
    handler.tls_control_required = True
    handler.tls_data_required = True
handler.authorizer = users
handler.use_sendfile = False
server = ThreadedFTPServer(("127.0.0.1", 0), handler)
print(server.socket.getsockname()[1], flush=True)
server.serve_forever()
