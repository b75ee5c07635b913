/* The pages of a project. */
import "../projects/question.js";
import "./conversations.js";
