/* Earlier turns are loaded as the reader scrolls up to them; scroll.js keeps what is being read in its
   place. The link does the same without this. */
import { listen } from "../base/dom.js";
import { ROOM_SHOWN } from "../base/events.js";

const place = document.getElementById("earlier");
const page = document.scrollingElement;
// Pixels above the window: loaded before the reader is there, they are there in time.
const AHEAD = 1200;

// The link that was followed: what could not be loaded is not asked for again by itself.
let followed = null;

function load() {
  const link = place.querySelector("a");
  if (!link || link === followed || place.getBoundingClientRect().bottom < -AHEAD) return;
  followed = link;
  link.click();
}

const observer = new IntersectionObserver(load, { rootMargin: `${AHEAD}px 0px 0px 0px` });

// A page begins at its top and goes to its end at once: only who scrolls up wants more.
let lastTop = 0;
let hasBegun = false;

function begin() {
  const isUp = page.scrollTop < lastTop;
  lastTop = page.scrollTop;
  if (!isUp) return;
  hasBegun = true;
  removeEventListener("scroll", begin);
  observer.observe(place);
}

addEventListener("scroll", begin, { passive: true });
// Another link may stand as near as the one before it.
listen(ROOM_SHOWN, () => { if (hasBegun) requestAnimationFrame(load); });
