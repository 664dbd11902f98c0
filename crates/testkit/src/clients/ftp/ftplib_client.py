# ftplib as a client of the matrix; libraries.rs says what its words are.
import ftplib, os, ssl, sys, time

host, port, user, password, tls, certificate, mode, form, verb, *words = sys.argv[1:]
if tls == "explicit":
    ftp = ftplib.FTP_TLS(context=ssl.create_default_context(cafile=certificate), encoding="utf-8")
else:
    ftp = ftplib.FTP(encoding="utf-8")
ftp.connect(host, int(port), timeout=30)
ftp.login(user, password)
if tls == "explicit":
    ftp.prot_p()
ftp.set_pasv(mode == "passive")


def put(local, remote, rest=None):
    with open(local, "rb") as source:
        if form == "text":
            return ftp.storlines(f"STOR {remote}", source)
        source.seek(rest or 0)
        ftp.storbinary(f"STOR {remote}", source, rest=rest)


def get(local, remote, rest=None):
    with open(local, "ab" if rest else "wb") as target:
        if form == "text":
            return ftp.retrlines(f"RETR {remote}", lambda line: target.write(line.encode() + b"\n"))
        ftp.retrbinary(f"RETR {remote}", target.write, rest=rest)


def size(remote):
    ftp.voidcmd("TYPE I")
    return ftp.size(remote)


def put_tree(local, remote):
    ftp.mkd(remote)
    for name in os.listdir(local):
        here, there = os.path.join(local, name), f"{remote}/{name}"
        put_tree(here, there) if os.path.isdir(here) else put(here, there)


def get_tree(local, remote):
    os.mkdir(local)
    for name, facts in list(ftp.mlsd(remote)):
        here, there = os.path.join(local, name), f"{remote}/{name}"
        if facts["type"] == "dir":
            get_tree(here, there)
        elif facts["type"] == "file":
            get(here, there)


if verb == "put":
    put(*words)
elif verb == "get":
    get(*words)
elif verb == "resume_up":
    put(*words, rest=size(words[1]))
elif verb == "resume_down":
    get(*words, rest=os.path.getsize(words[0]))
elif verb == "put_tree":
    put_tree(*words)
elif verb == "get_tree":
    get_tree(*words)
elif verb == "put_times":
    put(*words)
    when = time.strftime("%Y%m%d%H%M%S", time.gmtime(os.path.getmtime(words[0])))
    assert ftp.sendcmd(f"MFMT {when} {words[1]}").startswith("213")
elif verb == "get_times":
    get(*words)
    when = ftp.sendcmd(f"MDTM {words[1]}").split()[1]
    seconds = time.mktime(time.strptime(when + "UTC", "%Y%m%d%H%M%S%Z")) - time.timezone
    os.utime(words[0], (seconds, seconds))
elif verb == "rename":
    ftp.rename(*words)
elif verb == "list":
    print("\n".join(name.rsplit("/", 1)[-1] for name in ftp.nlst(words[0])))
ftp.quit()
