/* Earlier turns of a conversation, as a page of their own. */
import "../conversations/unread.js";
import "../conversations/list.js";
import "../organization/line_menu.js";
import "../organization/pins.js";
import "../projects/folds.js";
import "../projects/move.js";
import "../base/panel.js";
import "../search/find_in_conversation.js";
import "./beside.js";
