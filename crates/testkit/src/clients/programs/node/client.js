// Node's ssh2 as a client of the matrix: PORT ACCOUNT PASSWORD KNOWN_HOSTS VERB ARGUMENT...
// In place of a password, `key:FILE` is a private key.
"use strict";
const fs = require("fs");
const path = require("path");
const { pipeline } = require("stream/promises");
const { promisify } = require("util");
const { Client } = require(path.join(process.env.NODE_MODULES, "ssh2"));

const [port, account, password, knownHosts, verb, ...words] = process.argv.slice(2);
const keys = fs.readFileSync(knownHosts, "utf8").split("\n").map((line) => line.split(" ")[2]);

/** Promises for the calls of `sftp` that are used here. */
function promised(sftp) {
  const names = ["fastPut", "fastGet", "stat", "mkdir", "readdir", "utimes", "symlink", "readlink"];
  const calls = { ext_openssh_rename: promisify(sftp.ext_openssh_rename.bind(sftp)), raw: sftp };
  for (const name of names) calls[name] = promisify(sftp[name].bind(sftp));
  return calls;
}

async function putTree(sftp, local, remote) {
  await sftp.mkdir(remote);
  for (const entry of fs.readdirSync(local, { withFileTypes: true })) {
    const [here, there] = [path.join(local, entry.name), `${remote}/${entry.name}`];
    await (entry.isDirectory() ? putTree(sftp, here, there) : sftp.fastPut(here, there));
  }
}

async function getTree(sftp, remote, local) {
  fs.mkdirSync(local);
  for (const entry of await sftp.readdir(remote)) {
    const [here, there] = [path.join(local, entry.filename), `${remote}/${entry.filename}`];
    await (entry.attrs.isDirectory() ? getTree(sftp, there, here) : sftp.fastGet(there, here));
  }
}

const verbs = {
  put: (sftp, local, remote) => sftp.fastPut(local, remote),
  get: (sftp, local, remote) => sftp.fastGet(remote, local),
  async resume_up(sftp, local, remote) {
    const start = (await sftp.stat(remote)).size;
    const target = sftp.raw.createWriteStream(remote, { flags: "r+", start });
    await pipeline(fs.createReadStream(local, { start }), target);
  },
  async resume_down(sftp, local, remote) {
    const start = fs.statSync(local).size;
    const target = fs.createWriteStream(local, { flags: "a" });
    await pipeline(sftp.raw.createReadStream(remote, { start }), target);
  },
  put_tree: putTree,
  get_tree: (sftp, local, remote) => getTree(sftp, remote, local),
  async put_times(sftp, local, remote) {
    await sftp.fastPut(local, remote);
    const { mtime } = fs.statSync(local);
    await sftp.utimes(remote, mtime, mtime);
  },
  async get_times(sftp, local, remote) {
    await sftp.fastGet(remote, local);
    const { mtime } = await sftp.stat(remote);
    fs.utimesSync(local, mtime, mtime);
  },
  rename: (sftp, from, to) => sftp.ext_openssh_rename(from, to),
  async list(sftp, remote) {
    for (const entry of await sftp.readdir(remote)) console.log(entry.filename);
  },
  symlink: (sftp, target, link) => sftp.symlink(target, link),
  readlink: async (sftp, link) => console.log(await sftp.readlink(link)),
};

const client = new Client();
const failed = (error) => {
  console.error(`${verb}: ${error.message}`);
  process.exit(1);
};
client.on("error", failed);
client.on("ready", () => {
  client.sftp((error, sftp) => {
    if (error) return failed(error);
    verbs[verb](promised(sftp), ...words).then(() => client.end(), failed);
  });
});
client.connect({
  host: "127.0.0.1",
  port: Number(port),
  username: account,
  ...(password.startsWith("key:") ? { privateKey: fs.readFileSync(password.slice(4)) } : { password }),
  hostVerifier: (key) => keys.includes(key.toString("base64")),
});
