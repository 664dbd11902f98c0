// tus-js-client: ENDPOINT USER:PASSWORD FILE FOLDER [URL]. With a URL it goes on with that upload.
// It prints `at URL` when it knows it, `chunk BYTES` for what the server has acknowledged, `done`.
"use strict";
const fs = require("fs");
const path = require("path");
const tus = require(path.join(process.env.NODE_MODULES, "tus-js-client"));

const [endpoint, login, file, folder, url] = process.argv.slice(2);
const upload = new tus.Upload(fs.createReadStream(file), {
  endpoint,
  uploadUrl: url || null,
  uploadSize: fs.statSync(file).size,
  chunkSize: 4 * 1024 * 1024,
  retryDelays: null,
  headers: { Authorization: `Basic ${Buffer.from(login).toString("base64")}` },
  metadata: { filename: path.basename(file), filetype: "application/octet-stream", folder },
  onUploadUrlAvailable: () => console.log(`at ${upload.url}`),
  onChunkComplete: (_, accepted) => console.log(`chunk ${accepted}`),
  onSuccess: () => console.log("done"),
  onError: (error) => {
    console.error(String(error));
    process.exitCode = 1;
  },
});
upload.start();
