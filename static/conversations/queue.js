/* The positions of queued answers, and the servers that start no new ones. */
import { emit, listen } from "../base/dom.js";
import { ANSWER_STARTED, SERVERS_DRAINING } from "../base/events.js";
import { openChannel } from "../live/channels.js";

function showPlace(run, place) {
  const line = document.getElementById(`q${run}`);
  if (line) line.textContent = place;
}

openChannel("queue", {
  shown: () => ({
    draining: (document.getElementById("choice-note")?.dataset.draining ?? "").split(" ").filter(Boolean),
  }),

  take(message) {
    if (message.draining) emit(SERVERS_DRAINING, message);
    else showPlace(message.queue, message.place);
  },
});

listen(ANSWER_STARTED, ({ run }) => showPlace(run, ""));
