/* The settings page that tests streaming. */
import "../health/streaming_test.js";
import "./base.js";
