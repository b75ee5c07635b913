/* The form of a tool. */
import "../tools/schema_example.js";
import "./base.js";
