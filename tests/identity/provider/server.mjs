// The real OpenID Connect provider `oidc-provider` on the loopback, with people whom a test describes.
//
// Arguments: port, client id, client secret, redirect address, logout address. `POST /control` changes it:
// {"people": {"ana": {claims}}}, {"rotate": algorithm}, {"clock": seconds by which it is fast}.

import { createRequire } from "node:module";
import { generateKeyPairSync, randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { pathToFileURL } from "node:url";

const [packages, port, clientId, secret, redirectUri, logoutUri] = process.argv.slice(2);
const require = createRequire(`${packages}/package.json`);
const { Provider } = await import(pathToFileURL(require.resolve("oidc-provider")));

const issuer = `http://127.0.0.1:${port}`;
const people = {};

// The last one is refused by this installation: everybody with the client secret could sign with it.
const ALGORITHMS = ["RS256", "ES256", "HS256"];

function newKey(algorithm) {
  const { privateKey } =
    algorithm === "ES256"
      ? generateKeyPairSync("ec", { namedCurve: "P-256" })
      : generateKeyPairSync("rsa", { modulusLength: 2048 });
  const jwk = privateKey.export({ format: "jwk" });
  return { ...jwk, use: "sig", alg: algorithm, kid: randomUUID() };
}

// The keys are fixed in a provider, so a rotation is a new one over the same store.
function makeProvider(algorithm) {
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: clientId,
        client_secret: secret,
        redirect_uris: [redirectUri],
        grant_types: ["authorization_code"],
        response_types: ["code"],
        id_token_signed_response_alg: algorithm,
        backchannel_logout_uri: logoutUri,
        backchannel_logout_session_required: true,
      },
    ],
    enabledJWA: { idTokenSigningAlgValues: ALGORITHMS },
    jwks: { keys: [newKey(algorithm === "ES256" ? "ES256" : "RS256")] },
    cookies: { keys: ["only for tests"] },
    claims: {
      openid: ["sub"],
      email: ["email", "email_verified"],
      profile: ["name"],
      groups: ["groups"],
    },
    scopes: ["openid"],
    ttl: { AuthorizationCode: 3600, IdToken: 300, Session: 3600, Grant: 3600, Interaction: 600 },
    features: { backchannelLogout: { enabled: true }, devInteractions: { enabled: true } },
    // Without its guard against addresses on the loopback, where the tests are.
    fetch: (url, { dispatcher, ...options }) => globalThis.fetch(url, options),
    pkce: { required: () => true },
    findAccount: (_context, id) =>
      people[id] && { accountId: id, claims: async () => ({ sub: id, ...people[id] }) },
    // Everybody agrees to everything.
    loadExistingGrant: async (context) => {
      const grant = new context.oidc.provider.Grant({
        clientId: context.oidc.client.clientId,
        accountId: context.oidc.session.accountId,
      });
      grant.addOIDCScope("openid email profile groups");
      context.oidc.session.ensureClientContainer(clientId);
      context.oidc.session.grantIdFor(clientId, await grant.save());
      return grant;
    },
  });
  provider.on("backchannel.error", (_context, error) => console.error(error));
  return provider.callback();
}

let handle = makeProvider("RS256");

const realNow = Date.now;
let clock = 0;
let fastBy = 0;
Date.now = () => realNow() + fastBy;

function control(body) {
  Object.assign(people, body.people);
  if (body.rotate) handle = makeProvider(body.rotate);
  clock = (body.clock ?? 0) * 1000;
}

createServer(async (request, response) => {
  // Browsers take no cookies from another time, so only tokens are of it.
  fastBy = request.url === "/token" ? clock : 0;
  if (request.url !== "/control") return handle(request, response);
  let text = "";
  for await (const piece of request) text += piece;
  control(JSON.parse(text));
  response.end("{}");
}).listen(Number(port), "127.0.0.1", () => console.log("listening"));
