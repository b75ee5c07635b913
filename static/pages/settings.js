/* The settings of one's own profile. */
import "../accounts/theme_choice.js";
import "../accounts/reading.js";
import "./base.js";
