# paramiko as a client of scripts/bench: HOST PORT USER KEY CIPHER MAC up|down|small LOCAL REMOTE
import os, sys
import paramiko

host, port, user, key, cipher, mac, what, local, remote = sys.argv[1:]
paramiko.Transport._preferred_ciphers = (cipher,)
paramiko.Transport._preferred_macs = (mac,)
client = paramiko.SSHClient()
# Both servers are of this run.
client.set_missing_host_key_policy(paramiko.AutoAddPolicy())
client.connect(host, int(port), user, key_filename=key, look_for_keys=False, allow_agent=False)
sftp = client.open_sftp()
if what == "up":
    sftp.put(local, remote)
elif what == "down":
    sftp.get(remote, local)
else:
    try:
        sftp.mkdir(remote)
    except OSError:
        pass
    for name in os.listdir(local):
        sftp.put(f"{local}/{name}", f"{remote}/{name}")
client.close()
