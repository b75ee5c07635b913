/* The settings of one's own profile. */
import "../accounts/theme_choice.js";
import "./base.js";
