/* Comparisons: what they need is loaded when a page shows one, or when somebody begins one. */
import { on, onSwapped } from "../base/dom.js";

const shown = document.getElementsByClassName("columns");
const load = () => { if (shown.length) import("./columns.js"); };

on("click", "[data-compare]", () => import("./picker.js"));
onSwapped(load);
load();
