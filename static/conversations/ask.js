/* "Ask about this": quotes the selected passage, or the turn that keys act on, in the composer. */
import { addTool, selectedPassage } from "../base/selection.js";
import { quote } from "./quote.js";

const composer = () => document.getElementById("text");

addTool("[data-ask]", () => composer() !== null, passage => quote(passage, composer()));

export const ask = turn => quote(selectedPassage() ?? { turn }, composer());
