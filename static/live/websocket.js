/* The tab's one websocket, which hx-ws opens again and again: whether it works, hangs or breaks off. */
import { WS_AFTER_CONNECTION, WS_BEFORE_CONNECTION, WS_BEFORE_INCOMING, WS_CLOSE } from "../base/events.js";

// The server's heartbeat comes every 15 s; a connection that is silent for this long is dead.
const SILENCE_MS = 30000;
// One that has lived this long is not blocked.
const PROOF_MS = 30000;
// Closed by a restart or by a busy server: that says nothing about the network.
const ORDERLY = [1012, 1013];
// hx-ws gives up for good after some codes, but any proxy may use them. From 4000 on they are our own,
// and final.
const NOT_FINAL = Array.from({ length: 3000 }, (_, number) => 1000 + number);

/* `live` is the element that hx-ws connects. Calls `mayConnect()` before each attempt, then
   `onOpened()`, `onIncoming(event)` before each message is swapped, `onClosed({code, isFailure})`,
   `onDead({isFailure})`, `onLate(ms)` while nothing has come yet, `onProven()`, and `onGone()` however
   the present one ends. Returns `say(message)`, which says whether it was sent, and `reopen()`, which
   closes the present one. */
export function websocket(live, { mayConnect, onOpened, onIncoming, onClosed, onDead, onLate, onProven, onGone }) {
  let connection = null;
  let socket = null;
  let since = 0;
  let heardAt = 0;

  // hx-ws says when it has opened one, but not when it begins to.
  function note() {
    if (connection?.socket === socket) return;
    [socket, since, heardAt] = [connection?.socket ?? null, Date.now(), 0];
  }

  live.addEventListener(WS_BEFORE_CONNECTION, event => {
    connection = event.detail.connection;
    connection.config.reconnectCodes = NOT_FINAL;
    if (!mayConnect()) event.preventDefault();
  });

  live.addEventListener(WS_AFTER_CONNECTION, event => {
    connection = event.detail.connection;
    note();
    onOpened();
  });

  live.addEventListener(WS_BEFORE_INCOMING, event => {
    note();
    heardAt = Date.now();
    onIncoming(event);
  });

  const isProven = () => heardAt > 0 && Date.now() - since > PROOF_MS;

  live.addEventListener(WS_CLOSE, ({ detail: { code } }) => {
    onGone();
    if (code !== null) onClosed({ code, isFailure: !isProven() && !ORDERLY.includes(code) });
  });

  // A close needs the other side's answer, for which a browser waits long: nobody waits here.
  const isDead = () => socket.readyState === WebSocket.OPEN && Date.now() - Math.max(heardAt, since) > SILENCE_MS;

  setInterval(() => {
    note();
    if (!socket || socket.readyState > WebSocket.OPEN) return;
    if (isDead()) onDead({ isFailure: !isProven() });
    else if (!heardAt) onLate(Date.now() - since);
    else if (isProven()) onProven();
  }, 1000);

  return {
    say(message) {
      if (socket?.readyState !== WebSocket.OPEN) return false;
      socket.send(JSON.stringify(message));
      return true;
    },
    reopen() { htmx.process(live, true); },
  };
}
