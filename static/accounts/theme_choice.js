/* The theme on the settings page: the same choice as in the palette, made by base/theme.js. */
import { emit, listen, ofBrowser } from "../base/dom.js";
import { THEME_CHANGE } from "../base/events.js";

const choice = document.getElementById("theme");
const show = theme => { choice.value = theme === "light" || theme === "dark" ? theme : "system"; };

choice.disabled = false;
show(ofBrowser.get("theme"));
choice.addEventListener("change", () => emit(THEME_CHANGE, { theme: choice.value }));
listen(THEME_CHANGE, ({ theme }) => show(theme));
