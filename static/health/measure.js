/* Measures how a connection delivers the events of the streaming test, and what that means. */
import { isStream, messagesOf } from "../live/sse.js";

// Beyond what the slowest of them takes, for what is held back until the end.
const LIMITS_MS = { answer: 12000, quiet: 120000 };
const ADDRESS = "/live/test/";
const CLOSE_BUSY = 1013;
const CLOSE_SIGNED_OUT = 4401;

/* Both give {began, events: [{number, of, sent_ms, at}], endedAt, …}; neither ever throws. */

export const measureSocket = pace => new Promise(resolve => {
  const result = { began: performance.now(), events: [], isOpened: false };
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  const socket = new WebSocket(`${scheme}//${location.host}${ADDRESS}?pace=${pace}`);
  const end = code => {
    clearTimeout(alarm);
    socket.close();
    resolve(Object.assign(result, { code, endedAt: performance.now(), isBusy: code === CLOSE_BUSY, isSignedOut: code === CLOSE_SIGNED_OUT }));
  };
  const alarm = setTimeout(() => end(null), LIMITS_MS[pace]);
  socket.addEventListener("open", () => { result.isOpened = true; });
  socket.addEventListener("message", ({ data }) => { result.events.push({ ...JSON.parse(data), at: performance.now() }); });
  socket.addEventListener("close", ({ code }) => end(code));
});

export async function measureStream(pace) {
  const result = { began: performance.now(), events: [], isOpened: false };
  const aborter = new AbortController();
  const alarm = setTimeout(() => aborter.abort(), LIMITS_MS[pace]);
  try {
    const response = await fetch(`${ADDRESS}?pace=${pace}`, { signal: aborter.signal, cache: "no-store", redirect: "error" });
    const { status, headers } = response;
    Object.assign(result, { status, headers, isBusy: status === 429, isSignedOut: status === 401 });
    result.isOpened = isStream(response);
    if (result.isOpened) {
      for await (const event of messagesOf(response)) result.events.push({ ...event, at: performance.now() });
    }
    result.protocol = performance.getEntriesByName(response.url).at(-1)?.nextHopProtocol ?? "";
  } catch (error) {
    result.error = String(error);
  }
  clearTimeout(alarm);
  result.endedAt = performance.now();
  return result;
}
const median = values => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

/* When each event was sent and when it arrived, in milliseconds since the measurement began. The
   clocks differ; the event that was fastest counts as not delayed at all. */
export function arrivalsOf({ began, events }) {
  const offset = Math.min(...events.map(event => event.at - event.sent_ms));
  return events.map(event => ({ sent: event.sent_ms + offset - began, arrived: event.at - began }));
}

/* One of: live, lumps, held, cut, mute, blocked, busy, signed-out. */
export function judge(result) {
  const { events, isOpened, isBusy, isSignedOut } = result;
  if (isSignedOut) return { state: "signed-out" };
  if (isBusy) return { state: "busy" };
  if (!events.length) return { state: isOpened ? "mute" : "blocked" };
  const arrivals = arrivalsOf(result);
  const delays = arrivals.map(({ sent, arrived }) => arrived - sent);
  const figures = { first: arrivals[0].arrived, typical: median(delays), worst: Math.max(...delays), count: events.length, of: events[0].of };
  if (figures.count < figures.of) return { state: "cut", ...figures };
  const sentFor = arrivals.at(-1).sent - arrivals[0].sent;
  const arrivedFor = arrivals.at(-1).arrived - arrivals[0].arrived;
  const lumps = arrivals.filter(({ arrived }, number) => !number || arrived - arrivals[number - 1].arrived > 20).length;
  if (arrivedFor < sentFor / 4 || lumps <= 2) return { state: "held", ...figures };
  return { state: lumps < figures.of / 2 ? "lumps" : "live", ...figures };
}

/* How the proxy nearest to the server calls itself; our own server says nothing. */
export function proxyOf(headers) {
  const said = ["Server", "Via"].map(name => [name, headers?.get(name)]).filter(([, value]) => value);
  if (!said.length) return null;
  const words = said.map(([name, value]) => `${name}: ${value.slice(0, 80)}`).join(", ");
  const name = said.map(([, value]) => value.match(/nginx|caddy|apache|envoy|traefik|cloudflare|squid|varnish|haproxy/i)?.[0]).find(Boolean);
  return { name: name ?? said[0][1].slice(0, 40), words };
}
