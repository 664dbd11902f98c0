// Chromium by playwright-core: URL TOKEN ACCOUNT PASSWORD FILE FOLDER
// Without scripts: makes the first administrator with the token, then signs the account in, uploads
// FILE by the form, downloads it into FOLDER, deletes it and signs out. With scripts: adds a passkey,
// signs in with it, proves with it and removes it. Prints what it has seen as JSON.
"use strict";
const path = require("path");
const { chromium } = require(path.join(process.env.NODE_MODULES, "playwright-core"));

const [url, token, account, password, file, folder] = process.argv.slice(2);
const flags = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--no-first-run",
];

async function setUp(page) {
  await page.goto(`${url}/setup`);
  await page.getByLabel("Token").fill(token);
  await page.getByLabel("Name").fill("root");
  await page.getByLabel("Password", { exact: true }).fill(password);
  await page.getByLabel("The password again").fill(password);
  await page.getByRole("button", { name: "Make the administrator" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  return (await page.goto(`${url}/setup`)).status();
}

async function signIn(page, secret) {
  await page.getByLabel("Name").fill(account);
  await page.getByLabel("Password").fill(secret);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
}

async function files(page) {
  const name = path.basename(file);
  await page.getByLabel("Upload files").setInputFiles(file);
  await page.getByRole("button", { name: "Upload", exact: true }).click();
  const link = page.getByRole("link", { name });
  await link.waitFor();
  const [download] = await Promise.all([page.waitForEvent("download"), link.click()]);
  await download.saveAs(path.join(folder, name));
  await page.getByRole("checkbox", { name: `Choose ${name}` }).check();
  await page.getByRole("button", { name: "Delete what is ticked" }).click();
  await link.waitFor({ state: "detached" });
  return name;
}

// What the policy of a page does not allow, such as a style.
function watch(page, refused) {
  page.on("console", (message) => {
    if (/content security policy/i.test(message.text())) refused.push(message.text());
  });
}

// A device of the person, with a code or a finger that is always right.
async function device(context, page) {
  const tools = await context.newCDPSession(page);
  await tools.send("WebAuthn.enable");
  const options = {
    protocol: "ctap2",
    transport: "internal",
    hasResidentKey: true,
    hasUserVerification: true,
    isUserVerified: true,
    automaticPresenceSimulation: true,
  };
  await tools.send("WebAuthn.addVirtualAuthenticator", { options });
}

async function passkeys(browser, refused) {
  const context = await browser.newContext({ ignoreHTTPSErrors: true });
  const page = await context.newPage();
  watch(page, refused);
  await device(context, page);
  await page.goto(`${url}/sign-in?to=/account`);
  await signIn(page, password);
  await page.getByLabel("What you call it").fill("The test's own");
  await page.getByRole("button", { name: "Add a passkey" }).click();
  const row = page.getByRole("row", { name: "The test's own" });
  await row.waitFor();
  await page.getByRole("button", { name: "Sign out" }).first().click();
  await page.getByRole("button", { name: "Sign in with a passkey" }).click();
  await page.getByRole("heading", { name: "/" }).waitFor();
  await page.goto(`${url}/prove?to=/account`);
  await page.getByRole("button", { name: "Confirm with a passkey" }).click();
  await row.getByRole("button", { name: "Remove" }).click();
  // The browser had signed in with it.
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await page.getByRole("button", { name: "Sign in with a passkey" }).click();
  const alert = page.getByRole("alert").filter({ hasText: "not taken" });
  await alert.waitFor();
  return alert.innerText();
}

async function main(browser) {
  const context = await browser.newContext({ javaScriptEnabled: false, ignoreHTTPSErrors: true });
  const page = await context.newPage();
  const refused = [];
  watch(page, refused);
  const setUpAgain = await setUp(page);
  await page.goto(`${url}/files/`);
  const led = new URL(page.url()).pathname;
  await signIn(page, "wrong");
  const alert = await page.getByRole("alert").innerText();
  await signIn(page, password);
  await page.getByRole("heading", { name: "/" }).waitFor();
  const cookies = await context.cookies();
  const downloaded = await files(page);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await page.goto(`${url}/files/`);
  const after = new URL(page.url()).pathname;
  const left = (await context.cookies()).length;
  const hidden = await page.getByRole("button", { name: "passkey" }).count();
  const removed = await passkeys(browser, refused);
  const seen = { setUpAgain, led, alert, cookies, downloaded, after, left, hidden, removed, refused };
  console.log(JSON.stringify(seen));
}

(async () => {
  const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: flags });
  try {
    await main(browser);
  } finally {
    await browser.close();
  }
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
