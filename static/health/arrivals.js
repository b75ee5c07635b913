/* The picture of a measurement: each event a line from when it was sent to when it arrived. */
import { element } from "../base/dom.js";
import { seconds } from "../base/i18n.js";

const NAMESPACE = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, TICK] = [1000, 72, 7];

function line(x1, y1, x2, y2, name) {
  const drawn = document.createElementNS(NAMESPACE, "line");
  for (const [key, value] of Object.entries({ x1, y1, x2, y2, class: name })) drawn.setAttribute(key, value);
  return drawn;
}

/* `events`: {sent, arrived} in milliseconds since the measurement began; `until`: the last moment shown. */
export function drawArrivals(figure, events, until) {
  const x = ms => (Math.min(Math.max(ms, 0), until) / until * (WIDTH - 4) + 2).toFixed(1);
  const drawn = events.flatMap(({ sent, arrived }) => [
    line(x(sent), 0, x(sent), TICK, "tick-sent"),
    line(x(sent), TICK + 2, x(arrived), HEIGHT - TICK - 2, "way"),
    line(x(arrived), HEIGHT - TICK, x(arrived), HEIGHT, "tick-arrived"),
  ]);
  figure.querySelector("svg").replaceChildren(...drawn);
  const marks = Array.from({ length: Math.floor(until / 1000) + 1 }, (_, second) => element("span", {}, seconds(second)));
  figure.querySelector(".arrivals-axis").replaceChildren(...marks);
}
