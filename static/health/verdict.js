/* What the measurements of the streaming test mean, in words. */
import { gettext, interpolate, seconds } from "../base/i18n.js";
import { judge, proxyOf } from "./measure.js";

export const WORDS = {
  live: gettext("Live"), lumps: gettext("In bursts"), held: gettext("Held back"), cut: gettext("Cut off"), mute: gettext("No data"),
  blocked: gettext("Blocked"), busy: gettext("Busy"), "signed-out": gettext("Signed out"),
};
const COMMON = {
  busy: gettext("This test is already running in another tab. Test again when it has finished."),
  "signed-out": gettext("You’re signed out. Sign in and test again."),
};
const SENTENCES = {
  lumps: gettext("Events arrive in bursts: a proxy collects them for a while."),
  cut: gettext("The connection was cut off in the middle."),
  mute: gettext("The connection opens, but no data arrives."),
};
const SOCKET = {
  live: gettext("Events arrive as they are sent. Conversations use this connection."),
  held: gettext("All events arrive together: a proxy holds them back."),
  blocked: gettext("The connection can’t be opened: a proxy or firewall blocks WebSockets."),
};
const STREAM = {
  live: gettext("Events arrive as they are sent."),
  held: gettext("All events arrive together after the last one was sent: a proxy buffers the response."),
  blocked: gettext("The connection can’t be opened."),
};
// What is not held back, but does not arrive at all.
const LOST = {
  cut: gettext("Event streams are cut off in the middle."),
  mute: gettext("Event streams open, but no data arrives."),
  blocked: gettext("Event streams can’t be opened."),
};

/* `key`: "socket" or "stream"; `state` as `judge` gives it. */
export const sentenceOf = (key, state) => COMMON[state] ?? { socket: SOCKET, stream: STREAM }[key][state] ?? SENTENCES[state];

/* The server's own data-proxy lines may exist for this proxy: then the verdict points to them. */
function remedyFor(proxy) {
  if (proxy && document.querySelector(`[data-proxy="${CSS.escape(proxy.name.toLowerCase())}"]`)) {
    return interpolate(gettext("The lines that %(proxy)s needs are below."), { proxy: proxy.name });
  }
  return gettext("What the proxy needs is below.");
}

/* Tone, title and sentences: of both connections together. `result` is that of the stream. */
export function verdictOf(socket, stream, result) {
  const proxy = proxyOf(result.headers);
  const remedy = remedyFor(proxy);
  const buffered = proxy
    ? interpolate(gettext("A proxy between you and the server (%(names)s) buffers responses."), { names: proxy.words })
    : gettext("An unidentified proxy or virus scanner between you and the server buffers responses.");
  const compressed = result.headers?.get("Content-Encoding") ? [gettext("It compresses the response and holds back what it compresses.")] : [];
  const [bySocket, byStream] = [socket.state === "live", stream.state === "live"];
  if (bySocket && byStream) return ["good", gettext("Answers stream live"), gettext("Text arrives word by word over both WebSockets and event streams.")];
  const common = COMMON[socket.state] ?? COMMON[stream.state];
  if (common) return ["wait", gettext("Not measured"), common];
  if (byStream) {
    return ["wait", gettext("WebSockets are blocked"), gettext("Conversations still update live: they fall back to an event stream."), remedy];
  }
  if (stream.state in LOST) return verdictOnLost(LOST[stream.state], socket.state);
  if (bySocket) {
    const effect = gettext("Programs get their answers late, and a conversation that loses its WebSocket updates in bursts.");
    return ["wait", gettext("Conversations are live, but event streams aren’t"), buffered, ...compressed, effect, remedy];
  }
  const effect = gettext("Conversations update in bursts, a moment late.");
  return ["bad", gettext("Answers don’t stream live"), buffered, ...compressed, effect, remedy];
}

function verdictOnLost(fault, socket) {
  if (socket === "live") {
    const effect = gettext("Programs can’t read answers while they are written, and a conversation that loses its WebSocket stops updating until it is back.");
    return ["wait", gettext("Conversations are live, but event streams aren’t"), fault, effect];
  }
  const effect = socket in LOST
    ? gettext("WebSockets are blocked as well, so conversations stop updating. Check that this browser is online and the server is running.")
    : gettext("Data over the WebSocket arrives late.");
  return ["bad", gettext("Answers don’t stream live"), fault, effect];
}

/* What the test of idle connections found. */
export function idleVerdict(socket, stream) {
  const refusal = [socket, stream].map(result => COMMON[judge(result).state]).find(Boolean);
  return refusal ?? `${lifetime(gettext("WebSocket"), socket)} ${lifetime(gettext("event stream"), stream)}`;
}

function lifetime(name, { events, began, endedAt }) {
  if (!events.length) return interpolate(gettext("The %(name)s doesn’t work at all."), { name });
  if (events.length === events[0].of) return interpolate(gettext("The %(name)s stayed open."), { name });
  const time = seconds(Math.round((endedAt - began) / 1000));
  return interpolate(
    gettext("The %(name)s was cut off after %(time)s: raise the proxy’s idle timeout (nginx: proxy_read_timeout) above 20 s."), { name, time },
  );
}
