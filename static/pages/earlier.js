/* Earlier turns of a conversation, as a page of their own. */
import "../conversations/unread.js";
import "../conversations/search.js";
import "../conversations/list.js";
import "../organization/line_menu.js";
import "../organization/pins.js";
import "./beside.js";
