# asyncssh as a client of the matrix: PORT USER PASSWORD KNOWN_HOSTS VERB ARGUMENT...
import asyncio, sys
import asyncssh

port, user, password, known_hosts, verb, *words = sys.argv[1:]
BLOCK = 1 << 20


async def run(sftp):
    if verb == "put":
        await sftp.put(*words)
    elif verb == "get":
        await sftp.get(words[1], words[0])
    elif verb == "resume_up":
        size = await sftp.getsize(words[1])
        with open(words[0], "rb") as source:
            source.seek(size)
            async with sftp.open(words[1], "ab") as target:
                while block := source.read(BLOCK):
                    await target.write(block)
    elif verb == "resume_down":
        with open(words[0], "ab") as target:
            async with sftp.open(words[1], "rb") as source:
                await source.seek(target.tell())
                while block := await source.read(BLOCK):
                    target.write(block)
    elif verb == "put_tree":
        await sftp.put(*words, recurse=True)
    elif verb == "get_tree":
        await sftp.get(words[1], words[0], recurse=True)
    elif verb == "put_times":
        await sftp.put(*words, preserve=True)
    elif verb == "get_times":
        await sftp.get(words[1], words[0], preserve=True)
    elif verb == "rename":
        await sftp.posix_rename(*words)
    elif verb == "list":
        for name in await sftp.listdir(words[0]):
            print(name)
    elif verb == "symlink":
        await sftp.symlink(*words)
    elif verb == "chmod":
        await sftp.chmod(words[0], int(words[1], 8))
    elif verb == "mode":
        print(oct((await sftp.stat(words[0])).permissions))
    elif verb == "readlink":
        print(await sftp.readlink(words[0]))
    else:
        sys.exit(f"no verb {verb}")


async def main():
    async with asyncssh.connect(
        "127.0.0.1", int(port), username=user, password=password, known_hosts=known_hosts,
        client_keys=None, agent_path=None, config=None,
    ) as connection:
        async with connection.start_sftp_client() as sftp:
            await run(sftp)


asyncio.run(main())
