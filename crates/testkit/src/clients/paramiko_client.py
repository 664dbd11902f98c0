# paramiko as a client of the matrix: PORT USER PASSWORD KNOWN_HOSTS VERB ARGUMENT...
import os, sys
import paramiko

port, user, password, known_hosts, verb, *words = sys.argv[1:]
BLOCK = 1 << 20


def copy(source, target):
    while block := source.read(BLOCK):
        target.write(block)


def put_tree(sftp, local, remote):
    sftp.mkdir(remote)
    for name in os.listdir(local):
        here, there = os.path.join(local, name), f"{remote}/{name}"
        put_tree(sftp, here, there) if os.path.isdir(here) else sftp.put(here, there)


def get_tree(sftp, remote, local):
    os.mkdir(local)
    # Not listdir_iter: it loses answers when anything else is asked meanwhile.
    for entry in sftp.listdir_attr(remote):
        here, there = os.path.join(local, entry.filename), f"{remote}/{entry.filename}"
        get_tree(sftp, there, here) if entry.st_mode & 0o40000 else sftp.get(there, here)


def run(sftp):
    if verb == "put":
        sftp.put(*words)
    elif verb == "get":
        sftp.get(words[1], words[0])
    elif verb == "resume_up":
        with open(words[0], "rb") as source, sftp.open(words[1], "ab") as target:
            source.seek(sftp.stat(words[1]).st_size)
            target.set_pipelined(True)
            copy(source, target)
    elif verb == "resume_down":
        with sftp.open(words[1], "rb") as source, open(words[0], "ab") as target:
            source.seek(target.tell())
            copy(source, target)
    elif verb == "put_tree":
        put_tree(sftp, *words)
    elif verb == "get_tree":
        get_tree(sftp, words[1], words[0])
    elif verb == "put_times":
        sftp.put(*words)
        times = os.stat(words[0])
        sftp.utime(words[1], (times.st_atime, times.st_mtime))
    elif verb == "get_times":
        sftp.get(words[1], words[0])
        times = sftp.stat(words[1])
        os.utime(words[0], (times.st_atime, times.st_mtime))
    elif verb == "rename":
        sftp.posix_rename(*words)
    elif verb == "list":
        for entry in sftp.listdir_iter(words[0]):
            print(entry.filename)
    elif verb == "hash":
        with sftp.open(words[0], "rb") as file:
            print(file.check("sha256").hex())
    elif verb == "rekey":
        sftp.put(words[0], words[1])
        sftp.get(words[1], words[2])
    else:
        sys.exit(f"no verb {verb}")


client = paramiko.SSHClient()
client.load_host_keys(known_hosts)
client.connect("127.0.0.1", int(port), user, password, look_for_keys=False, allow_agent=False)
transport, rekeys = client.get_transport(), 0
if verb == "rekey":
    transport.packetizer.REKEY_BYTES = 1 << 20
    activate = transport._activate_outbound

    def counted():
        global rekeys
        rekeys += 1
        activate()

    transport._activate_outbound = counted
run(client.open_sftp())
if verb == "rekey":
    print(rekeys)
client.close()
