/* Forms with a passkey: the browser makes or uses one, and the form sends what it says.

   A form has data-passkey="create" or "get". Its options are in data-passkey-options, or, where a visitor isn't known
   yet, at data-passkey-address. */

const decode = (text) =>
  Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));

const encode = (buffer) =>
  btoa(Array.from(new Uint8Array(buffer), (byte) => String.fromCharCode(byte)).join(""))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");

/** The options as the browser wants them, with bytes instead of base64url. */
function withBytes({ publicKey }) {
  const descriptors = (list) => (list ?? []).map((each) => ({ ...each, id: decode(each.id) }));
  const options = { ...publicKey, challenge: decode(publicKey.challenge) };
  if (publicKey.user) options.user = { ...publicKey.user, id: decode(publicKey.user.id) };
  if (publicKey.excludeCredentials) options.excludeCredentials = descriptors(publicKey.excludeCredentials);
  if (publicKey.allowCredentials) options.allowCredentials = descriptors(publicKey.allowCredentials);
  return { publicKey: options };
}

const MEMBERS = ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"];

/** A credential as JSON (RegistrationResponseJSON, AuthenticationResponseJSON). */
function asText(credential) {
  const response = {};
  for (const name of MEMBERS) {
    if (credential.response[name]) response[name] = encode(credential.response[name]);
  }
  if (credential.response.getTransports) response.transports = credential.response.getTransports();
  return JSON.stringify({
    id: credential.id,
    rawId: encode(credential.rawId),
    type: credential.type,
    response,
    clientExtensionResults: credential.getClientExtensionResults(),
  });
}

async function optionsOf(form) {
  const { passkeyOptions, passkeyAddress } = form.dataset;
  if (passkeyOptions) return JSON.parse(passkeyOptions);
  const answer = await fetch(passkeyAddress, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(String(answer.status));
  return (await answer.json()).request_options;
}

function say(form, sentence) {
  const line = form.querySelector("[data-passkey-error] > p");
  line.hidden = false;
  line.lastElementChild.textContent = sentence;
}

async function send(form) {
  const { canceled } = form.querySelector("[data-passkey-error]").dataset;
  const button = form.querySelector("button");
  button.disabled = true;
  try {
    const credential = await navigator.credentials[form.dataset.passkey](withBytes(await optionsOf(form)));
    form.elements.credential.value = asText(credential);
    form.submit();
  } catch {
    say(form, canceled);
    button.disabled = false;
  }
}

// Browsers refuse passkeys at IP addresses (WebAuthn, 5.1.2: the host has to be a domain).
const isAvailable = "credentials" in navigator && !/^[\d.]+$|:/.test(location.hostname);

for (const form of document.querySelectorAll("form[data-passkey]")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form);
  });
  if (isAvailable) {
    form.querySelector("button").disabled = false;
    form.hidden = false;
  } else say(form, form.querySelector("[data-passkey-error]").dataset.unavailable);
}
