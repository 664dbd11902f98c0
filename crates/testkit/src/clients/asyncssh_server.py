# asyncssh as a server for one user key: USER_PUBLIC_KEY_FILE FOLDER; prints port and host key.
import asyncio, logging, sys
import asyncssh

# A client that is killed is what the tests are about, not worth a line for each write to it.
logging.getLogger("asyncio").setLevel(logging.ERROR)

key_file, folder = sys.argv[1:]


async def main():
    host_key = asyncssh.generate_private_key("ssh-ed25519")
    server = await asyncssh.listen(
        "127.0.0.1", 0, server_host_keys=[host_key], authorized_client_keys=key_file,
        sftp_factory=lambda channel: asyncssh.SFTPServer(channel, chroot=folder.encode()),
    )
    print(server.get_port(), host_key.export_public_key().decode().strip(), flush=True)
    await server.wait_closed()


asyncio.run(main())
