"""Searches by a client that was generated into `loans_client`: at once, and in a session that it
holds. Arguments: address of the server, user, password, file with the certificate."""

import json
import ssl
import sys

sys.path.insert(0, ".")

from loans_client import Client
from loans_client.api.default import find_loans, find_loans_in_session
from loans_client.api.host_sessions import end_host_session, open_host_session
from loans_client.models import FindLoansBody, FindLoansInSessionBody, HostSessionOrder

server, user, password, certificate = sys.argv[1:]
client = Client(
    server,
    verify_ssl=ssl.create_default_context(cafile=certificate),
    timeout=60,
    httpx_args={"auth": (user, password)},
    raise_on_unexpected_status=True,
)

found = find_loans.sync(client=client, body=FindLoansBody(reader="MANY"))
first = found.loans[0]

session = open_host_session.sync(client=client, body=HostSessionOrder())
held = find_loans_in_session.sync(
    session.id, client=client, body=FindLoansInSessionBody(reader="MANY")
)
ended = end_host_session.sync_detailed(session.id, client=client)

refused = find_loans.sync(client=client, body=FindLoansBody(reader="NOBODY"))

print(
    json.dumps(
        {
            "at_once": found.to_dict(),
            "in_session": held.to_dict(),
            "ended": ended.status_code,
            # What the description says of types is what the client has.
            "first": [type(value).__name__ for value in (first.id, first.title, first.due)],
            "refused": refused.to_dict(),
        }
    )
)
