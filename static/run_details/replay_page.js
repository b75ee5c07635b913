/* What plays a run is pressed, moved and linked to: on a page of its own, and in the panel. */
(() => {
  "use strict";

  // After the slider stood still for so long its moment is asked for.
  const SETTLE_MS = 120;

  let player = null;

  function current() {
    const root = document.querySelector("[data-replay]");
    if (!root) return null;
    if (player?.root !== root) player = new Replay(root);
    return player;
  }

  function say(playing, trouble) {
    const place = playing.root.querySelector("[data-replay-trouble]");
    place.hidden = !trouble;
    place.textContent = trouble;
  }

  async function tried(work) {
    const playing = current();
    if (!playing) return;
    say(playing, "");
    try { await work(playing); } catch (error) {
      playing.pause();
      say(playing, error instanceof TypeError || !error.message ? "The server could not be reached. Try again." : error.message);
    }
  }

  document.addEventListener("click", event => {
    const control = event.target.closest?.("[data-replay-play], [data-replay-step], [data-replay-speed]");
    if (!control || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    const { replayStep, replaySpeed } = control.dataset;
    if (replayStep) tried(one => one.step(Number(replayStep)));
    else if (replaySpeed) tried(one => one.setSpeed(Number(replaySpeed)));
    else tried(one => (one.isPlaying ? one.pause() : one.play()));
  });

  let settling = null;

  document.addEventListener("input", event => {
    if (!event.target.matches?.("[data-replay-slider]")) return;
    clearTimeout(settling);
    const slider = event.target;
    // In the panel another run may stand there by then.
    settling = setTimeout(() => { if (slider.isConnected) tried(one => one.jump({ t: Math.round(slider.value) })); }, SETTLE_MS);
  });

  /* A link to an event opens where that is, in the panel as on a page of its own. */
  function arrive() {
    current();
    document.querySelector("#panel [data-at], .recorder [data-at]")?.scrollIntoView({ block: "center" });
  }

  document.addEventListener("panel:shown", arrive);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", arrive);
  else arrive();
})();
