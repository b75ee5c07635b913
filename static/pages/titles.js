/* The settings of titles that a model writes. */
import "../base/combobox.js";
import "./base.js";
