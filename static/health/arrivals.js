/* The picture of a measurement: each event a line from when it was sent to when it arrived. */
(() => {
  "use strict";

  const NAMESPACE = "http://www.w3.org/2000/svg";
  const [WIDTH, HEIGHT, TICK] = [1000, 72, 7];

  function line(x1, y1, x2, y2, name) {
    const element = document.createElementNS(NAMESPACE, "line");
    for (const [key, value] of Object.entries({ x1, y1, x2, y2, class: name })) element.setAttribute(key, value);
    return element;
  }

  /* `events`: {sent, arrived} in milliseconds since the measurement began; `until`: the last moment shown. */
  window.drawArrivals = (figure, events, until) => {
    const x = ms => (Math.min(Math.max(ms, 0), until) / until * (WIDTH - 4) + 2).toFixed(1);
    const drawn = events.flatMap(({ sent, arrived }) => [
      line(x(sent), 0, x(sent), TICK, "tick-sent"),
      line(x(sent), TICK + 2, x(arrived), HEIGHT - TICK - 2, "way"),
      line(x(arrived), HEIGHT - TICK, x(arrived), HEIGHT, "tick-arrived"),
    ]);
    figure.querySelector("svg").replaceChildren(...drawn);
    const marks = Array.from({ length: Math.floor(until / 1000) + 1 }, (_, second) => {
      const mark = document.createElement("span");
      mark.textContent = `${second} s`;
      return mark;
    });
    figure.querySelector(".arrivals-axis").replaceChildren(...marks);
  };
})();
