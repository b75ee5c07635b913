/* Every page: notices, announcements, menus, forms, copying and keys. */
import "../base/announcer.js";
import "../base/notices.js";
import "../organization/undo.js";
import "../base/copy.js";
import "../base/keys.js";
import "../base/shell.js";
import "../search/palette.js";
