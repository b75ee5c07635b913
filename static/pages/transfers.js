/* Exports and imports. */
import "../transfers/announcements.js";
import "../transfers/upload.js";
import "./base.js";
