// Passkeys: asks the server for a challenge and the authenticator for the answer, then sends the
// form. Without this script, or in a browser without passkeys, the forms stay hidden.
"use strict";
(() => {
  if (!window.PublicKeyCredential) return;
  const bytes = (text) =>
    Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (it) => it.charCodeAt(0));
  const text = (buffer) =>
    btoa(Array.from(new Uint8Array(buffer), (byte) => String.fromCharCode(byte)).join(""))
      .replace(/\+/g, "-")
      .replace(/\//g, "_")
      .replace(/=+$/, "");

  async function asked(form) {
    const csrf = form.elements.namedItem("csrf");
    const headers = csrf ? { "X-CSRF-Token": csrf.value } : {};
    const answer = await fetch(form.dataset.passkey, { method: "POST", headers });
    const said = await answer.json();
    if (!answer.ok) throw new Error(said.detail);
    said.challenge = bytes(said.challenge);
    return said;
  }

  async function made(options) {
    options.user.id = bytes(options.user.id);
    for (const known of options.excludeCredentials) known.id = bytes(known.id);
    const { rawId, response } = await navigator.credentials.create({ publicKey: options });
    return {
      credential: text(rawId),
      client_data: text(response.clientDataJSON),
      authenticator_data: text(response.getAuthenticatorData()),
      public_key: text(response.getPublicKey()),
      algorithm: response.getPublicKeyAlgorithm(),
    };
  }

  async function shown(options) {
    const { rawId, response } = await navigator.credentials.get({ publicKey: options });
    return {
      credential: text(rawId),
      client_data: text(response.clientDataJSON),
      authenticator_data: text(response.authenticatorData),
      signature: text(response.signature),
      user_handle: response.userHandle ? text(response.userHandle) : "",
    };
  }

  for (const form of document.querySelectorAll("form[data-passkey]")) {
    form.hidden = false;
    const alert = document.createElement("p");
    alert.setAttribute("role", "alert");
    alert.className = "bad";
    form.append(alert);
    const button = form.querySelector("button");
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      alert.textContent = "";
      button.disabled = true;
      try {
        const options = await asked(form);
        const answer = options.user ? await made(options) : await shown(options);
        for (const [name, value] of Object.entries(answer)) {
          form.elements.namedItem(name).value = value;
        }
        form.submit();
      } catch (error) {
        const gone = error.name === "NotAllowedError";
        alert.textContent = gone ? "No passkey was chosen, or it took too long." : error.message;
        button.disabled = false;
      }
    });
  }
})();
