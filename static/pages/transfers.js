/* Exports and imports. */
import "../transfers/upload.js";
import "./base.js";
