/* All tools for text that is selected in a turn. The text that is selected while they are loaded is offered to them. */
import "../comments/select.js";
import "./ask.js";
import { offerSoon } from "../base/selection.js";

offerSoon();
