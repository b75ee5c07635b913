/* Earlier turns come as the reader scrolls up to them; where the eyes are, scroll.js keeps. The link
   does the same without this. */
(() => {
  "use strict";

  const place = document.getElementById("earlier");
  const page = document.scrollingElement;
  // Pixels above the window. Before the reader is there: most often they are there in time.
  const AHEAD = 1200;

  // The link that was followed: what could not be had is not asked for again without a word.
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
  document.addEventListener("room:shown", () => { if (hasBegun) requestAnimationFrame(load); });
})();
