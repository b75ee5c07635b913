/* The pages of presets. */
import "../base/combobox.js";
import "../conversations/model_choice.js";
import "../presets/controls.js";
import "./base.js";
