"""tuspy: ENDPOINT USER:PASSWORD FILE FOLDER CHUNKS [URL]. With a URL it goes on with that upload.
It stops after so many chunks of 1 MiB, 0 meaning none, and prints the URL of the upload and how far
it is. Every chunk has its checksum."""

import base64
import os
import sys

from tusclient import client

endpoint, login, file, folder, chunks, *url = sys.argv[1:]
fields = {"Authorization": "Basic " + base64.b64encode(login.encode()).decode()}
uploader = client.TusClient(endpoint, headers=fields).uploader(
    file,
    chunk_size=1 << 20,
    url=url[0] if url else None,
    metadata={"filename": os.path.basename(file), "folder": folder},
    upload_checksum=True,
)
if int(chunks):
    for _ in range(int(chunks)):
        uploader.upload_chunk()
else:
    uploader.upload()
print(uploader.url, uploader.offset)
