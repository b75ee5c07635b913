/* Running clocks: the server says how long something had lasted, and the page counts on while it is
   connected: of what goes on without it, it knows nothing. */
import { listen, matching, onAdded, setText } from "./dom.js";
import { CONNECTION_STATE } from "./events.js";
import { elapsed } from "./i18n.js";

const clocks = new Set();
const began = new WeakMap();
let isConnected = true;
listen(CONNECTION_STATE, state => { isConnected = state.isConnected; });

// Noted as they are added: a long page has thousands of elements to look through.
onAdded(document.querySelectorAll("#turns, #dock"), root => {
  for (const clock of matching(root, "time[data-elapsed-ms]")) clocks.add(clock);
});

function tick() {
  for (const clock of clocks) {
    if (!clock.isConnected) clocks.delete(clock);
    if (!clock.closest("#strip, [data-live]")) continue;
    const said = clock.dataset.elapsedMs;
    if (began.get(clock)?.said !== said) began.set(clock, { said, at: performance.now() - Number(said) });
    setText(clock, elapsed(performance.now() - began.get(clock).at));
  }
}

setInterval(() => { if (!document.hidden && isConnected) tick(); }, 250);
