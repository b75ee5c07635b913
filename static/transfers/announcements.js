/* Says to people who use a screen reader when an export or import has ended: its list is replaced every
   two seconds, so it is no live region itself. The report of an import is also brought into view. */
import { announce, onSwapped } from "../base/dom.js";

const active = () => new Set([...document.querySelectorAll(".job[data-active]")].map(job => job.id));
let before = active();

onSwapped(() => {
  const now = active();
  for (const id of before) {
    const job = document.getElementById(id);
    if (!job || now.has(id)) continue;
    announce(`${job.querySelector("strong").textContent}: ${job.dataset.status}`);
    if (job.querySelector(".job-figures")) job.scrollIntoView({ block: "nearest" });
  }
  before = now;
});
