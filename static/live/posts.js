/* Forms with `data-live-post` go over the page's websocket. htmx treats the answer like any response. Where
   there is no websocket, or it closes or stays silent instead of answering, the form is posted: its key
   makes it count once. */
import { listen } from "../base/dom.js";
import { BEFORE_REQUEST, CONNECTION_STATE, FINALLY_REQUEST } from "../base/events.js";

// The server closes the connection for larger messages (`ConnectionLimits.message_bytes`).
const MOST_BYTES = 60000;
// A server that restarts is back by then.
const AGAIN_MS = 20000;
// An answer takes longer than this only where the network has gone without a word, or the server is busy.
const PATIENCE_MS = 10000;
const HEADERS = ["HX-Request", "HX-Current-URL", "X-Room-Position"];
const BAD_GATEWAY = 502;
// The tab has too many forms waiting on its websocket.
const TOO_MANY = 429;

/* `send(message)` returns whether the websocket took it. Returns `takeAnswer(message)`, which gives a
   promise for the time when the page shows the answer, and `lose()`, for when the websocket has closed. */
export function posts(send) {
  const waiting = new Map();  // id → function of the answer, or of nothing
  const finishing = new Map();  // request → functions to call when htmx is done with it
  let last = 0;
  let isConnected = false;

  listen(BEFORE_REQUEST, ({ ctx }) => {
    if (ctx.sourceElement.matches?.("form[data-live-post]")) ctx.fetch = post;
  });

  listen(FINALLY_REQUEST, ({ ctx }) => {
    finishing.get(ctx.request)?.();
    finishing.delete(ctx.request);
  });

  listen(CONNECTION_STATE, detail => { isConnected = detail.isConnected; });

  async function post(action, request) {
    const message = messageOf(action, request);
    const answer = message && await ask(message, request);
    if (answer) return responseOf(answer);
    try {
      const response = await fetch(action, request);
      if (answer === null || response.status !== BAD_GATEWAY) return response;
    } catch (error) {
      if (answer === null || !navigator.onLine || request.signal?.aborted) throw error;
    }
    // The websocket closed under way, because the server restarts most likely.
    if (!isConnected) await connected(request.signal);
    request.signal?.throwIfAborted();
    const second = await ask(message, request);
    return second ? responseOf(second) : fetch(action, request);
  }

  /* The answer; `null` if nothing was sent, and `undefined` if the connection broke. */
  function ask(message, request) {
    const id = last += 1;
    return new Promise(resolve => {
      // Without a network the websocket is still open, until its silence is noticed.
      if (!navigator.onLine || !send({ type: "post", id, ...message })) return resolve(null);
      const giveUp = () => waiting.get(id)?.();
      const timer = setTimeout(giveUp, PATIENCE_MS);
      waiting.set(id, answer => {
        clearTimeout(timer);
        waiting.delete(id);
        resolve(answer);
        return answer && new Promise(done => finishing.set(request, done));
      });
      request.signal?.addEventListener("abort", giveUp);
    });
  }

  function lose() { for (const give of [...waiting.values()]) give(); }
  addEventListener("offline", lose);

  return { takeAnswer: message => waiting.get(message.answer)?.(message.status === TOO_MANY ? undefined : message), lose };
}

/* `null` for what only a request can carry: files, and very long texts. */
function messageOf(action, { body, headers }) {
  const fields = [];
  for (const [name, value] of body ?? []) {
    if (value instanceof File && value.size) return null;
    if (typeof value === "string" && name !== "csrfmiddlewaretoken") fields.push([name, value]);
  }
  const said = Object.fromEntries(HEADERS.filter(name => headers[name]).map(name => [name, headers[name]]));
  const message = { action, fields, headers: said, cookie: document.cookie };
  return new Blob([JSON.stringify(message)]).size > MOST_BYTES ? null : message;
}

const responseOf = ({ status, headers, body }) => new Response(status === 204 ? null : body, { status, headers });

/* Waits until the page is connected again, for some time at most. */
function connected(signal) {
  return new Promise(resolve => {
    const timer = setTimeout(done, AGAIN_MS);
    function done() {
      clearTimeout(timer);
      document.removeEventListener(CONNECTION_STATE, look);
      resolve();
    }
    function look({ detail }) { if (detail.isConnected) done(); }
    document.addEventListener(CONNECTION_STATE, look);
    signal?.addEventListener("abort", done);
  });
}
