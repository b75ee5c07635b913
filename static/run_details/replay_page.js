/* The controls of a replay: on a page of its own, and in the panel. */
import { isPlainClick, listen, on } from "../base/dom.js";
import { PANEL_SHOWN } from "../base/events.js";
import { unreachable } from "../base/network.js";
import { Replay } from "./replay.js";

// After the slider stood still for so long its moment is asked for.
const SETTLE_MS = 120;
let player = null;

function current() {
  const root = document.querySelector("[data-replay]");
  if (root && player?.root !== root) player = new Replay(root);
  return root ? player : null;
}

function show(playing, trouble) {
  const place = playing.root.querySelector("[data-replay-trouble]");
  place.hidden = !trouble;
  place.textContent = trouble;
}

async function attempt(work) {
  const playing = current();
  if (!playing) return;
  show(playing, "");
  try { await work(playing); } catch (error) {
    playing.pause();
    const isUnreachable = error instanceof TypeError || !error.message;
    show(playing, isUnreachable ? unreachable() : error.message);
  }
}

on("click", "[data-replay-play], [data-replay-step], [data-replay-speed]", (control, event) => {
  if (!isPlainClick(event)) return;
  event.preventDefault();
  const { replayStep, replaySpeed } = control.dataset;
  if (replayStep) attempt(one => one.step(Number(replayStep)));
  else if (replaySpeed) attempt(one => one.setSpeed(Number(replaySpeed)));
  else attempt(one => (one.isPlaying ? one.pause() : one.play()));
});

let settling = null;

on("input", "[data-replay-slider]", slider => {
  clearTimeout(settling);
  // In the panel another run may stand there by then.
  settling = setTimeout(() => { if (slider.isConnected) attempt(one => one.jump({ t: Math.round(slider.value) })); }, SETTLE_MS);
});

/* A link to an event opens where that is, in the panel as on a page of its own. */
function arrive() {
  current();
  document.querySelector("#panel [data-at], .recorder [data-at]")?.scrollIntoView({ block: "center" });
}

listen(PANEL_SHOWN, arrive);
arrive();
