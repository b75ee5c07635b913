/* Reads our own server-sent events: JSON on one line each, and nothing else but comments. */

const PREFIX = "data: ";

/* Yields the messages of a response, each as soon as it is complete. */
export async function* messagesOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const parts = [];
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    parts.push(value);
    if (!value.includes("\n")) continue;
    const blocks = parts.splice(0).join("").split("\n\n");
    parts.push(blocks.pop());
    for (const block of blocks) {
      if (block.startsWith(PREFIX)) yield JSON.parse(block.slice(PREFIX.length));
    }
  }
}

/* Returns whether this is a stream of ours, and not a sign-in page, an error, or an answer of some proxy. */
export const isStream = response =>
  response.ok && (response.headers.get("Content-Type") ?? "").startsWith("text/event-stream");
