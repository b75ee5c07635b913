/* Inside the frame of one diagram: draws what the page around it sends, and says how high it is.
   The page has loaded Mermaid before, a classic script that makes a global. */
import { gettext } from "../base/i18n.js";

const place = document.getElementById("diagram");
// More than a person can follow with the eye, and than can be laid out in a moment.
const MOST_CHARACTERS = 20000;
const MOST_EDGES = 400;
let number = 0;

// To the page that framed us, which can only be one of ours: nothing in it is secret.
const say = message => parent.postMessage(message, "*");
const sayHeight = () => { if (place.firstChild) say({ height: Math.ceil(place.getBoundingClientRect().height) }); };

async function draw({ source, isDark }) {
  mermaid.initialize({
    startOnLoad: false, securityLevel: "strict", suppressErrorRendering: true, theme: isDark ? "dark" : "neutral",
    maxTextSize: MOST_CHARACTERS, maxEdges: MOST_EDGES, fontFamily: getComputedStyle(place).fontFamily,
  });
  // A width of its own once the fonts are there: labels are measured.
  await document.fonts.ready;
  const { svg } = await mermaid.render(`drawing-${++number}`, source);
  place.innerHTML = svg;
  sayHeight();
}

addEventListener("message", async event => {
  if (event.source !== parent || typeof event.data?.source !== "string") return;
  try {
    if (event.data.source.length > MOST_CHARACTERS) throw new Error(gettext("it is too long"));
    await draw(event.data);
  } catch (error) {
    say({ failure: String(error?.message ?? error).split("\n", 1)[0].replace(/[\s:.]+$/, "").slice(0, 200) });
  }
});

new ResizeObserver(sayHeight).observe(place);
say({ isReady: true });
