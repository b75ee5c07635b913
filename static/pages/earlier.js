/* Earlier turns of a conversation, as a page of their own. */
import "../unread/unread.js";
import "../inbox/count.js";
import "../inbox/notify.js";
import "../presence/in_list.js";
import "../conversations/list.js";
import "../organization/line_menu.js";
import "../organization/pins.js";
import "../projects/folds.js";
import "../projects/move.js";
import "../base/panel.js";
import "../search/find_in_conversation.js";
import "../compare/compare.js";
import "../feedback/thumbs.js";
import "../comments/passages.js";
import "../conversations/selection.js";
import "./beside.js";
