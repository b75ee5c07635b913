/* The self-test page: runs both measurements, and says in words what they mean and what to change. */
(() => {
  "use strict";

  const SENTENCES = {
    socket: {
      live: "Events arrive as they are sent. Conversations use this.",
      lumps: "Events arrive in lumps: something on the way collects them for a while.",
      held: "All events arrive together: something on the way holds them back.",
      cut: "It was cut in the middle.",
      mute: "It opens, but nothing comes through it.",
      blocked: "It cannot be opened: something between this browser and the server refuses websockets.",
    },
    stream: {
      live: "Events arrive as they are sent.",
      lumps: "Events arrive in lumps: something on the way collects them for a while.",
      held: "All events arrive together, when the last one was sent: something on the way collects the answer.",
      cut: "It was cut in the middle.",
      mute: "It opens, but nothing comes through it.",
      blocked: "It cannot be opened.",
    },
  };
  // What is not held back, but does not arrive at all.
  const LOST = { cut: "Plain streams are cut in the middle.", mute: "Plain streams open, but nothing comes through them.", blocked: "Plain streams cannot be opened." };
  const COMMON = { busy: "This test is running in another tab already. Measure again when it has ended.", "signed-out": "You are signed out. Sign in and measure again." };
  const WORDS = { live: "Live", lumps: "In lumps", held: "Held back", cut: "Cut", mute: "Nothing comes", blocked: "Blocked", busy: "Busy", "signed-out": "Signed out" };

  const again = document.getElementById("again");
  const quiet = document.getElementById("quiet");
  const milliseconds = value => `${Math.round(value)} ms`;

  /* --- one carrier --- */

  function showCarrier(key, result, judgement) {
    const place = document.getElementById(`test-${key}`);
    const { state } = judgement;
    place.dataset.state = state === "live" ? "good" : state === "busy" ? "wait" : "bad";
    place.querySelector(".carrier-word span").textContent = WORDS[state];
    place.querySelector(".carrier-sentence").textContent = COMMON[state] ?? SENTENCES[key][state];
    if (result.events.length) {
      const arrivals = window.arrivalsOf(result);
      window.drawArrivals(place.querySelector(".arrivals"), arrivals, Math.ceil(arrivals.at(-1).arrived / 1000) * 1000);
    }
    place.querySelector(".arrivals").hidden = !result.events.length;
    showFigures(place.querySelector(".figures"), figuresOf(key, result, judgement));
  }

  function figuresOf(key, result, { count, of, first, typical, worst }) {
    const figures = count ? [["Arrived", `${count} of ${of}`], ["First after", milliseconds(first)], ["Typical delay", milliseconds(typical)], ["Longest delay", milliseconds(worst)]] : [];
    if (key === "socket") return figures;
    const proxy = window.proxyOf(result.headers);
    const compression = result.headers?.get("Content-Encoding");
    if (result.status && result.status !== 200) figures.push(["Answer", `HTTP ${result.status}`]);
    if (result.protocol) figures.push(["Protocol", result.protocol === "h2" ? "HTTP/2" : result.protocol === "h3" ? "HTTP/3" : "HTTP/1.1"]);
    if (proxy) figures.push(["Named on the way", proxy.words]);
    if (compression) figures.push(["Compressed", compression]);
    return figures;
  }

  function showFigures(list, figures) {
    list.replaceChildren(...figures.map(([name, value]) => {
      const [row, term, detail] = ["div", "dt", "dd"].map(tag => document.createElement(tag));
      term.textContent = name;
      detail.textContent = value;
      row.append(term, detail);
      return row;
    }));
    list.hidden = !figures.length;
  }

  /* --- both together --- */

  function verdictOf(socket, stream, result) {
    const proxy = window.proxyOf(result.headers);
    const who = proxy ? `A proxy between you and the server (it says ${proxy.words})` : "Something between you and the server, a proxy or a virus scanner that does not say its name,";
    const remedy = proxy && document.querySelector(`[data-proxy="${CSS.escape(proxy.name.toLowerCase())}"]`) ? ` The lines that ${proxy.name} needs are below.` : " Whoever runs the proxy finds below what it needs.";
    const [bySocket, byStream] = [socket.state === "live", stream.state === "live"];
    if (bySocket && byStream) return ["good", "Answers arrive live", "Websockets and plain streams both get through, word by word."];
    if ([socket.state, stream.state].some(state => state in COMMON)) return ["wait", "Not measured", COMMON[socket.state] ?? COMMON[stream.state]];
    const compressed = result.headers?.get("Content-Encoding") ? " It compresses the answer, and collects what it compresses." : "";
    const heldBack = `${who} collects an answer before it passes it on.${compressed}`;
    if (byStream) return ["wait", "Websockets do not get through", `Conversations stay live all the same: they fall back to a plain stream by themselves.${remedy}`];
    if (stream.state in LOST) return verdictOnLost(LOST[stream.state], socket.state);
    if (bySocket) return ["wait", "Conversations are live, plain streams are not", `${heldBack} Programs get their answers late, and a conversation that ever loses its websocket goes on in steps.${remedy}`];
    return ["bad", "Answers do not arrive live", `${heldBack} Conversations go on in steps, a moment late.${remedy}`];
  }

  function verdictOnLost(fault, bySocket) {
    if (bySocket === "live") return ["wait", "Conversations are live, plain streams are not", `${fault} Programs cannot read answers while they are written, and a conversation that ever loses its websocket stands still until it is back.`];
    if (bySocket in LOST) return ["bad", "Answers do not arrive live", `${fault} Websockets do not get through either, so conversations stand still. Is this browser online, and is the server running?`];
    return ["bad", "Answers do not arrive live", `${fault} What comes by websocket comes late.`];
  }

  function showVerdict(state, title, text) {
    const verdict = document.getElementById("verdict");
    verdict.dataset.state = state;
    verdict.querySelector("h2").textContent = title;
    verdict.querySelector("p").textContent = text;
  }

  async function measure() {
    again.disabled = true;
    showVerdict("running", "Measuring …", "Two seconds.");
    const [bySocket, byStream] = await Promise.all([window.measureSocket("answer"), window.measureStream("answer")]);
    const [socket, stream] = [window.judge(bySocket), window.judge(byStream)];
    showCarrier("socket", bySocket, socket);
    showCarrier("stream", byStream, stream);
    const verdict = verdictOf(socket, stream, byStream);
    showVerdict(...verdict);
    const named = window.proxyOf(byStream.headers)?.name.toLowerCase();
    for (const recipe of document.querySelectorAll(".recipe")) recipe.open = verdict[0] !== "good" && recipe.dataset.proxy === named;
    again.disabled = false;
  }

  /* --- quiet connections --- */

  function lifeOf(name, { events, began, endedAt }) {
    if (!events.length) return `The ${name} does not get through at all.`;
    const seconds = Math.round((endedAt - began) / 1000);
    if (events.length === events[0].of) return `The ${name} stayed open.`;
    return `The ${name} was cut after ${seconds} s: raise the time for which a proxy lets a connection be quiet (nginx: proxy_read_timeout) above 20 s.`;
  }

  async function measureQuiet() {
    const place = document.getElementById("quiet-result");
    quiet.disabled = true;
    place.hidden = false;
    place.textContent = "Listening. You can go on working in other tabs; leave this one open.";
    const [socket, stream] = await Promise.all([window.measureSocket("quiet"), window.measureStream("quiet")]);
    const refusal = [socket, stream].map(result => COMMON[window.judge(result).state]).find(Boolean);
    place.textContent = refusal ?? `${lifeOf("websocket", socket)} ${lifeOf("plain stream", stream)}`;
    quiet.disabled = false;
  }

  again.addEventListener("click", measure);
  quiet.addEventListener("click", measureQuiet);
  measure();
})();
