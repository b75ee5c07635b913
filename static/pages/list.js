/* Pages with the list of conversations beside them: home, search, inbox. */
import "../conversations/composer.js";
import "../conversations/send_again.js";
import "../base/combobox.js";
import "../conversations/model_choice.js";
import "../files/attach.js";
import "../conversations/unread.js";
import "../conversations/list.js";
import "../organization/line_menu.js";
import "../organization/pins.js";
import "../projects/folds.js";
import "../projects/move.js";
import "../live/frames.js";
import "./base.js";
