/* Live channels: what a page is told beside its live answers. The script of a feature opens the channel that its
   server side registers (chat/live/channels.py). */
const channels = new Map();
let send = () => {};

/* `shown()` gives what the page shows, which the server is told when a connection begins, and
   `take(message, {isOneWay})` handles a message of the server; it may return a promise. `isOneWay`: by the event
   stream, over which nothing can be said. Returns `say(words)`. */
export function openChannel(name, { shown = () => ({}), take }) {
  channels.set(name, { shown, take });
  return { say: words => send({ [name]: words }) };
}

/* --- for the connection --- */
export const connectChannels = say => { send = words => say({ type: "channels", channels: words }); };
export const shownByChannels = () => Object.fromEntries([...channels].map(([name, { shown }]) => [name, shown()]));
export const takeForChannel = (message, how) => channels.get(message.channel)?.take(message, how);
