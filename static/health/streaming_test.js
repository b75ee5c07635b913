/* The page of the streaming test: runs both measurements and shows what they mean. */
import { element } from "../base/dom.js";
import { gettext, interpolate, milliseconds, number } from "../base/i18n.js";
import { drawArrivals } from "./arrivals.js";
import { arrivalsOf, judge, measureSocket, measureStream, proxyOf } from "./measure.js";
import { idleVerdict, sentenceOf, verdictOf, WORDS } from "./verdict.js";

const again = document.getElementById("again");
const idle = document.getElementById("quiet");
const PROTOCOLS = { h2: "HTTP/2", h3: "HTTP/3" };

function showConnection(key, result, judgement) {
  const place = document.getElementById(`test-${key}`);
  const { state } = judgement;
  place.dataset.state = state === "live" ? "good" : state === "busy" ? "wait" : "bad";
  place.querySelector(".carrier-word span").textContent = WORDS[state];
  place.querySelector(".carrier-sentence").textContent = sentenceOf(key, state);
  if (result.events.length) {
    const arrivals = arrivalsOf(result);
    drawArrivals(place.querySelector(".arrivals"), arrivals, Math.ceil(arrivals.at(-1).arrived / 1000) * 1000);
  }
  place.querySelector(".arrivals").hidden = !result.events.length;
  showFigures(place.querySelector(".figures"), figuresOf(key, result, judgement));
}

function figuresOf(key, result, { count, of, first, typical, worst }) {
  const proxy = proxyOf(result.headers);
  const compression = result.headers?.get("Content-Encoding");
  return [
    count && [gettext("Arrived"), interpolate(gettext("%(count)s of %(total)s"), { count: number(count), total: number(of) })],
    count && [gettext("First event after"), milliseconds(first)],
    count && [gettext("Typical delay"), milliseconds(typical)],
    count && [gettext("Longest delay"), milliseconds(worst)],
    result.status && result.status !== 200 && [gettext("Response"), `HTTP ${result.status}`],
    result.protocol && [gettext("Protocol"), PROTOCOLS[result.protocol] ?? "HTTP/1.1"],
    key === "stream" && proxy && [gettext("Proxy"), proxy.words],
    compression && [gettext("Compressed"), compression],
  ].filter(Boolean);
}

function showFigures(list, figures) {
  list.replaceChildren(...figures.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
  list.hidden = !figures.length;
}

function showVerdict(state, title, ...sentences) {
  const verdict = document.getElementById("verdict");
  verdict.dataset.state = state;
  verdict.querySelector("h2").textContent = title;
  verdict.querySelector("p").textContent = sentences.join(" ");
}

async function measure() {
  again.disabled = true;
  showVerdict("running", gettext("Measuring…"), gettext("This takes two seconds."));
  const [bySocket, byStream] = await Promise.all([measureSocket("answer"), measureStream("answer")]);
  const [socket, stream] = [judge(bySocket), judge(byStream)];
  showConnection("socket", bySocket, socket);
  showConnection("stream", byStream, stream);
  const verdict = verdictOf(socket, stream, byStream);
  showVerdict(...verdict);
  const named = proxyOf(byStream.headers)?.name.toLowerCase();
  for (const recipe of document.querySelectorAll(".recipe")) recipe.open = verdict[0] !== "good" && recipe.dataset.proxy === named;
  again.disabled = false;
}

async function measureIdle() {
  const place = document.getElementById("quiet-result");
  idle.disabled = true;
  place.hidden = false;
  place.textContent = gettext("Measuring. You can use other tabs; leave this one open.");
  place.textContent = idleVerdict(...await Promise.all([measureSocket("quiet"), measureStream("quiet")]));
  idle.disabled = false;
}

again.addEventListener("click", measure);
idle.addEventListener("click", measureIdle);
measure();
