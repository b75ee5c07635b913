/* The page of search results. */
import "./list.js";
import "../search/results.js";
