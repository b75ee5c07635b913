/* Plays a run again: patches from the server, inserted at the times at which they arrived. */
import { gettext, seconds } from "../base/i18n.js";

// Real time that should lie in store before the next patches are needed.
const AHEAD_MS = 3000;
const find = (root, name) => root.querySelector(`[data-replay-${name}]`);

export class Replay {
  constructor(root) {
    this.root = root;
    this.seq = Number(root.dataset.seq);
    this.t = Number(root.dataset.t);
    this.last = Number(root.dataset.last);
    this.speed = 1;
    this.isPlaying = false;
    this.turn = 0;
    this.restart();
    for (const one of root.querySelectorAll("[data-replay-play], [data-replay-slider], .replay-speeds")) one.hidden = false;
  }

  /* Drops what is in store; what was asked for before is thrown away when it arrives. */
  restart({ isJumping = false } = {}) {
    Object.assign(this, { store: [], isOver: false, asking: null, failure: null, isJumping });
    this.turn += 1;
    return this.turn;
  }

  async ask(address, parameters) {
    const { turn } = this;
    const response = await fetch(`${address}?${new URLSearchParams(parameters)}`, { redirect: "error" });
    const said = await response.json();
    if (!response.ok) throw new Error(said.detail ?? "");
    return turn === this.turn && this.root.isConnected ? said : null;
  }

  put(content) {
    if (!content) return Promise.resolve();
    return htmx.swap({ sourceElement: this.root, target: this.root, swap: "none swapEmpty:false", text: content, transition: false });
  }

  show() {
    const slider = find(this.root, "slider");
    if (document.activeElement !== slider || this.isPlaying) slider.value = String(this.t);
    slider.setAttribute("aria-valuetext", seconds(this.t / 1000, 1));
    find(this.root, "seq").textContent = String(this.seq);
    find(this.root, "t").textContent = seconds(this.t / 1000, 1);
    find(this.root, "link").href = `${this.root.dataset.address}?at=${this.seq}`;
  }

  async jump(parameters) {
    const turn = this.restart({ isJumping: true });
    try {
      const moment = await this.ask(this.root.dataset.moment, parameters);
      for (const content of moment?.contents ?? []) {
        if (turn === this.turn) await this.put(content);
      }
      if (!moment || turn !== this.turn) return;
      Object.assign(this, { seq: moment.seq, t: moment.t });
      this.startClock();
      this.show();
    } finally {
      if (turn === this.turn) this.isJumping = false;
    }
  }

  /* Steps forward follow each other: a second press, while the first one loads, goes on from there. */
  step(by) {
    if (this.isPlaying || this.isJumping || by < 0) this.pause();
    if (by < 0) return this.jump({ seq: Math.max(0, this.seq - 1) });
    const before = this.stepping ?? Promise.resolve();
    this.stepping = before.catch(() => {}).then(() => this.stepForward());
    return this.stepping;
  }

  async stepForward() {
    if (this.seq >= this.last) return undefined;
    const more = await this.ask(this.root.dataset.frames, { after: this.seq, step: 0, most: 1 });
    for (const frame of more?.frames ?? []) await this.take(frame);
    return this.show();
  }

  async take({ content, seq, t }) {
    // First: who presses again meanwhile asks for what comes behind this.
    Object.assign(this, { seq, t });
    await this.put(content);
  }

  async play() {
    if (this.seq >= this.last) await this.jump({ seq: 0 });
    const loop = this.loop = {};
    const goesOn = () => this.loop === loop && this.isPlaying && this.root.isConnected;
    this.setPlaying(true);
    this.startClock();
    while (goesOn()) {
      await this.fill();
      if (goesOn()) await this.takeDue();
      if (this.isOver && !this.store.length) break;
      await new Promise(resolve => requestAnimationFrame(resolve));
    }
    if (goesOn()) this.pause();
  }

  startClock() { Object.assign(this, { from: this.t, since: performance.now() }); }

  get clock() { return this.from + (performance.now() - this.since) * this.speed; }

  async fill() {
    const end = this.store.at(-1);
    if (this.isOver || this.isJumping || (end && end.t - this.t > AHEAD_MS * this.speed)) return;
    if (!this.failure) this.asking ??= this.more(end?.seq ?? this.seq);
    if (this.store.length) return;
    await this.asking;
    if (this.failure) throw this.failure;
    // What the network took is not the run's time.
    this.startClock();
  }

  async more(after) {
    const { turn } = this;
    try {
      const more = await this.ask(this.root.dataset.frames, { after, step: this.root.dataset.step * this.speed });
      if (!more) return;
      this.store.push(...more.frames);
      this.isOver = more.is_over;
    } catch (error) {
      // Told when what is in store has been shown.
      if (turn === this.turn) this.failure = error;
    } finally {
      if (turn === this.turn) this.asking = null;
    }
  }

  async takeDue() {
    const { turn } = this;
    const now = this.clock;
    let taken = false;
    while (this.isPlaying && turn === this.turn && this.store[0]?.t <= now) {
      await this.take(this.store.shift());
      taken = true;
    }
    // Between events only the time goes on.
    if (!taken) find(this.root, "slider").value = String(now);
    else this.show();
  }

  pause() {
    this.restart();
    this.setPlaying(false);
    this.show();
  }

  setPlaying(isPlaying) {
    this.isPlaying = isPlaying;
    const button = find(this.root, "play");
    button.setAttribute("aria-pressed", String(isPlaying));
    button.querySelector("span").textContent = isPlaying ? gettext("Pause") : gettext("Play");
  }

  setSpeed(speed) {
    Object.assign(this, { from: this.isPlaying ? this.clock : this.t, since: performance.now(), speed });
    for (const one of this.root.querySelectorAll("[data-replay-speed]")) one.setAttribute("aria-pressed", String(Number(one.dataset.replaySpeed) === speed));
  }
}
