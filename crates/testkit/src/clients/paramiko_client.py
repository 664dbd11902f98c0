# paramiko as a client of the matrix: PORT USER PASSWORD KNOWN_HOSTS VERB ARGUMENT...
import os, sys
import paramiko
import paramiko.sftp as psftp

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


READ, WRITE, CREAT, TRUNC, EXCL = 1, 2, 8, 16, 32


class Order:
    """Packets in exactly the order given, as clients send them that cannot be installed here."""

    def __init__(self, sftp):
        self.sftp = sftp

    def send(self, kind, *fields):
        """Sends, and waits for nothing."""
        return self.sftp._async_request(type(None), kind, *fields)

    def answer(self, number):
        return self.sftp._read_response(number)

    def ask(self, kind, *fields):
        return self.answer(self.send(kind, *fields))

    def open(self, path, flags):
        kind, message = self.ask(psftp.CMD_OPEN, path, flags, paramiko.SFTPAttributes())
        return message.get_binary()

    def write(self, handle, offset, data):
        """Four at a time, 32 KiB each, answers taken later."""
        out = []
        for at in range(0, len(data), 32768):
            place = psftp.int64(offset + at)
            out.append(self.send(psftp.CMD_WRITE, handle, place, data[at : at + 32768]))
            if len(out) == 4:
                self.answer(out.pop(0))
        return out

    def size(self, path):
        kind, message = self.ask(psftp.CMD_LSTAT, path)
        return paramiko.SFTPAttributes._from_msg(message).st_size


def times(seconds):
    attributes = paramiko.SFTPAttributes()
    attributes.st_atime = attributes.st_mtime = seconds
    return attributes


def winscp(order, data, target):
    part = target + ".filepart"
    handle = order.open(part, WRITE | CREAT | TRUNC)
    for number in order.write(handle, 0, data):
        order.answer(number)
    order.ask(psftp.CMD_CLOSE, handle)
    try:
        order.ask(psftp.CMD_REMOVE, target)
    except FileNotFoundError:
        pass
    order.ask(psftp.CMD_RENAME, part, target)
    order.ask(psftp.CMD_SETSTAT, target, times(1_000_000_000))


def winscp_small(order, data, target):
    """SETSTAT goes out right behind CLOSE, before either is answered."""
    handle = order.open(target, WRITE | CREAT | TRUNC)
    open_answers = order.write(handle, 0, data)
    open_answers.append(order.send(psftp.CMD_CLOSE, handle))
    open_answers.append(order.send(psftp.CMD_SETSTAT, target, times(1_000_000_000)))
    for number in open_answers:
        order.answer(number)


def winscp_cut(order, data, target):
    cut(order, data, target + ".filepart")


def cut(order, data, target):
    """Half of it, then the connection is gone."""
    handle = order.open(target, WRITE | CREAT | TRUNC)
    for number in order.write(handle, 0, data[: len(data) // 2]):
        order.answer(number)
    transport.sock.close()
    os._exit(0)


def winscp_resume(order, data, target):
    part = target + ".filepart"
    have = order.size(part)
    handle = order.open(part, WRITE | CREAT)
    for number in order.write(handle, have, data[have:]):
        order.answer(number)
    order.ask(psftp.CMD_CLOSE, handle)
    order.ask(psftp.CMD_RENAME, part, target)
    print(have)


def filezilla_resume(order, data, target):
    """The size to go on from is that of the listing; the open file is asked again."""
    listed = {entry.filename: entry.st_size for entry in order.sftp.listdir_attr(".")}
    handle = order.open(target, WRITE)
    kind, message = order.ask(psftp.CMD_FSTAT, handle)
    have = paramiko.SFTPAttributes._from_msg(message).st_size
    if have != listed.get(target):
        sys.exit(f"listed {listed.get(target)}, open {have}")
    for number in order.write(handle, have, data[have:]):
        order.answer(number)
    order.ask(psftp.CMD_CLOSE, handle)
    order.ask(psftp.CMD_SETSTAT, target, times(1_000_000_000))
    print(have)


def sshfs_create(order, data, path, flags=0):
    """OPEN and LSTAT together; then WRITEs, whose answers it awaits at the flush, CLOSE's never."""
    mode = paramiko.SFTPAttributes()
    mode.st_mode = 0o100644
    opened = order.send(psftp.CMD_OPEN, path, WRITE | CREAT | flags, mode)
    seen = order.send(psftp.CMD_LSTAT, path)
    handle = order.answer(opened)[1].get_binary()
    order.answer(seen)
    for number in order.write(handle, 0, data):
        order.answer(number)
    return handle


def sshfs_rename(order, old, new):
    order.ask(psftp.CMD_EXTENDED, "posix-rename@openssh.com", old, new)


def permissions(mode):
    attributes = paramiko.SFTPAttributes()
    attributes.st_mode = mode
    return attributes


def missing(order, path):
    """The kernel looks for what it does not know yet."""
    try:
        order.ask(psftp.CMD_LSTAT, path)
    except FileNotFoundError:
        return
    sys.exit(f"{path} is there")


def sshfs_editor(order, data, target):
    """Written beside, synchronized, renamed over: the CLOSE is not awaited."""
    missing(order, ".new")
    handle = sshfs_create(order, data, ".new", EXCL)
    order.ask(psftp.CMD_EXTENDED, "fsync@openssh.com", handle)
    order.send(psftp.CMD_CLOSE, handle)
    order.ask(psftp.CMD_SETSTAT, ".new", permissions(0o100600))
    sshfs_rename(order, ".new", target)
    if order.size(target) != len(data):
        sys.exit("another size")
    missing(order, ".new")


def sshfs_late_close(order, data, target):
    """Its threads race: the RENAME of a file may overtake the CLOSE of it."""
    handle = sshfs_create(order, data, ".new", EXCL)
    sshfs_rename(order, ".new", target)
    if order.size(target) != len(data):
        sys.exit("another size")
    order.ask(psftp.CMD_CLOSE, handle)


def sshfs_vim(order, data, target):
    """The old file is renamed away and removed in the end."""
    sshfs_rename(order, target, target + "~")
    missing(order, target)
    handle = sshfs_create(order, data, target)
    order.send(psftp.CMD_CLOSE, handle)
    handle = order.open(target, WRITE)
    order.size(target)
    order.ask(psftp.CMD_EXTENDED, "fsync@openssh.com", handle)
    order.send(psftp.CMD_CLOSE, handle)
    order.ask(psftp.CMD_SETSTAT, target, permissions(0o100644))
    order.ask(psftp.CMD_REMOVE, target + "~")


def sshfs_in_place(order, data, target):
    """Written over what is there, then cut to its size by the next who opens it."""
    handle = order.open(target, WRITE)
    for number in order.write(handle, 0, data):
        order.answer(number)
    order.send(psftp.CMD_CLOSE, handle)
    handle = order.open(target, WRITE)
    size = paramiko.SFTPAttributes()
    size.st_size = len(data)
    order.ask(psftp.CMD_FSETSTAT, handle, size)
    order.ask(psftp.CMD_FSTAT, handle)
    order.ask(psftp.CMD_CLOSE, handle)


def jsch(order, data, target):
    """16 READs ahead; an answer out of order would make JSch cancel and ask again."""
    handle = order.open(target, WRITE | CREAT | TRUNC)
    for number in order.write(handle, 0, data):
        order.answer(number)
    order.ask(psftp.CMD_CLOSE, handle)
    handle, got, asked, waiting = order.open(target, READ), b"", 0, []
    while len(got) < len(data):
        while len(waiting) < 16:
            waiting.append(order.send(psftp.CMD_READ, handle, psftp.int64(asked), 32768))
            asked += 32768
        kind, packet = order.sftp._read_packet()
        message = paramiko.Message(packet)
        number = message.get_int()
        if number != waiting.pop(0):
            sys.exit("an answer came out of order")
        got += message.get_binary() if kind == psftp.CMD_DATA else b""
    if got != data:
        sys.exit("it came back different")


def run(sftp):
    if verb.startswith("order:"):
        with open(words[0], "rb") as file:
            globals()[verb.removeprefix("order:")](Order(sftp), file.read(), words[1])
        return
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
    elif verb == "symlink":
        sftp.symlink(*words)
    elif verb == "chmod":
        sftp.chmod(words[0], int(words[1], 8))
    elif verb == "mode":
        print(oct(sftp.stat(words[0]).st_mode))
    elif verb == "readlink":
        print(sftp.readlink(words[0]))
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
