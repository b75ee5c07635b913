/* The inbox: the list of conversations, and the cards of questions. */
import "../base/clocks.js";
import "../rendering/code.js";
import "../inbox/page.js";
import "./list.js";
