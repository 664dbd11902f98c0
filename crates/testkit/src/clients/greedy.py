# paramiko as a client that holds whatever it gets: PORT USER PASSWORD. An order is a line on standard
# input: MODE PATH COUNT BYTES OFFSET. It opens COUNT files, moves BYTES of each from OFFSET on, and
# keeps them open. The answer is a line: how many it got, and the words of the first refusal.
import sys
import paramiko

port, user, password = sys.argv[1:]
transport = paramiko.Transport(("127.0.0.1", int(port)))
transport.connect(username=user, password=password)
sftp = paramiko.SFTPClient.from_transport(transport)
held = []
print("ready", flush=True)
for line in sys.stdin:
    mode, path, count, size, offset = line.split()
    size, offset, given, words = int(size), int(offset), 0, "-"
    for number in range(int(count)):
        try:
            file = sftp.open(path.format(number), mode)
            held.append(file)
            file.set_pipelined(mode != "r")
            file.seek(offset)
            if mode == "r":
                assert len(file.read(size)) == size
            elif size:
                file.write(b"x" * size)
                file.flush()
            given += 1
        except IOError as refused:
            words = str(refused)
            break
    # Behind all that was sent.
    sftp.normalize(".")
    print(given, words, flush=True)
# Not in good order: what it holds is the server's to let go.
import os
os._exit(0)
