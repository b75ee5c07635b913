/* The style guide: every page's scripts, and those of components. */
import "../base/combobox.js";
import "./base.js";
