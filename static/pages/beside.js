/* A page about a conversation as a page of its own: details, files, artifacts, earlier turns. */
import "../base/clocks.js";
import "../rendering/code.js";
import "../rendering/unfold.js";
import "../rendering/math.js";
import "../rendering/diagrams.js";
import "../artifacts/previews.js";
import "../run_details/replay_page.js";
import "../comments/panel.js";
import "./base.js";
