/* The tab's one websocket, which hx-ws opens again and again: whether it carries, hangs or breaks off. */
(() => {
  "use strict";

  const live = document.getElementById("live");
  if (!live) return;
  // The server's heartbeat comes every 15 s; a connection that says nothing for this long is dead.
  const SILENCE_MS = 30000;
  // One that has lived so long is not blocked.
  const PROOF_MS = 30000;
  // Closed by a restart, by a busy server: that says nothing about the way.
  const ORDERLY = [1012, 1013];
  // hx-ws gives up for good after some codes, but anything on the way may use them. From 4000 on
  // they are our own, and final.
  const NOT_FINAL = Array.from({ length: 3000 }, (_, number) => 1000 + number);

  let connection = null;
  let socket = null;
  let since = 0;
  let heardAt = 0;

  const tell = (name, detail) => document.dispatchEvent(new CustomEvent(name, { detail }));

  // hx-ws says when it has opened one, but not when it begins to.
  function note() {
    if (connection?.socket === socket) return;
    [socket, since, heardAt] = [connection?.socket ?? null, Date.now(), 0];
  }

  live.addEventListener("htmx:ws:before:connection", event => {
    connection = event.detail.connection;
    connection.config.reconnectCodes = NOT_FINAL;
  });

  live.addEventListener("htmx:ws:after:connection", event => {
    connection = event.detail.connection;
    note();
    tell("socket:opened");
  });

  live.addEventListener("htmx:ws:before:message:incoming", () => {
    note();
    heardAt = Date.now();
  });

  const isProven = () => heardAt > 0 && Date.now() - since > PROOF_MS;

  /* Without a code it was closed, or not opened, by this page. */
  live.addEventListener("htmx:ws:close", ({ detail: { code } }) => {
    if (code !== null) tell("socket:closed", { code, isFailure: !isProven() && !ORDERLY.includes(code) });
  });

  // To be closed takes an answer, and for that a browser waits long: nobody waits here.
  const isDead = () => socket.readyState === WebSocket.OPEN && Date.now() - Math.max(heardAt, since) > SILENCE_MS;

  setInterval(() => {
    note();
    if (!socket || socket.readyState > WebSocket.OPEN) return;
    if (isDead()) tell("socket:dead", { isFailure: !isProven() });
    else if (!heardAt) tell("socket:late", { age: Date.now() - since });
    else if (isProven()) tell("socket:proven");
  }, 1000);

  document.addEventListener("socket:say", ({ detail: message }) => {
    if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
  });
})();
