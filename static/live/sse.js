/* Reads our own server-sent events: JSON on one line each, and nothing else but comments. */
(() => {
  "use strict";

  const PREFIX = "data: ";

  /* The messages of an answer, each as soon as it is complete. */
  window.messagesOf = async function* (response) {
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
  };

  /* What is no stream of ours: a sign-in page, an error, the words of something between. */
  window.isStream = response => response.ok && (response.headers.get("Content-Type") ?? "").startsWith("text/event-stream");
})();
