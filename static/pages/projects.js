/* The pages of a project. */
import "./conversations.js";
