/* All events by which scripts talk to each other, and those of htmx that they listen to. Ours are
   dispatched on the document; behind each is the shape of its `detail`. */
export const ANNOUNCE = "tributary:announce";  // {text, urgent, about, kind}: see announcer.js
export const NOTICE = "tributary:notice";  // {text, source, about, isLost}: see notices.js
export const ROOM_CHANGED = "room:changed";  // {revision}, or {} if nobody knows it; the server sends it as HX-Trigger, too
export const ROOM_SHOWN = "room:shown";  // {}: turns or their surroundings were swapped in
export const ROOM_GONE = "room:gone";  // {reason}: "signed-out", "deleted", "expired" or "access"
export const ROOM_ACCEPTED = "room:accepted";  // never dispatched: HX-Trigger of a form that the server has accepted
export const FILES_CHANGED = "files:changed";  // {}: files of the message that is being written were added, read or removed
export const ANSWER_STARTED = "answer:started";  // {run}: a queued answer has begun
export const ANSWER_ENDED = "answer:ended";  // {run}: its live answer has ended
export const INBOX_CHANGED = "inbox:changed";  // {count, version, news}: what waits for this person (chat/inbox/channel.py)
export const LIST_PATCHED = "list:patched";  // {}: lines were put into the list
export const LIST_STALE = "list:stale";  // {text}: this page has changed the list, and what it did; the server sends it as HX-Trigger
export const LIST_LOST = "list:lost";  // {}: this person lost access to something that the list may show
export const SERVERS_DRAINING = "servers:draining";  // {draining}: ids of the servers that start no new answers
export const CONNECTION_STATE = "connection:state";  // {isConnected, isStream, isStepwise, isAsking}: see live/connection.js
export const PANEL_SHOWN = "panel:shown";  // {address}: a page was put into the panel
export const COMMENTS_CHANGED = "comments:changed";  // {}: the server has told of a change of comments
export const ASK_ABOUT = "ask:about";  // {turn}: a key asks about the selected passage, or about this turn
export const SEARCH_OPEN = "search:open";  // {}: the palette opens
export const SEARCH_SHOWN = "search:shown";  // at its field: it asks for what it shows first
export const COMBOBOX_FILLED = "combobox:filled";  // {place, isSearching}: the list of a combobox has its options
export const THEME_CHANGE = "theme:change";  // {theme}: "light", "dark" or "system"; base/theme.js has the name as well
export const SIDEBAR_TOGGLE = "sidebar:toggle";  // {}: base/sidebar.js, a classic script, has the name as well

// htmx: {ctx} with sourceElement, request, response, text, swap and hx.
export const CONFIG_REQUEST = "htmx:config:request";  // before a request is queued: headers can be set
export const BEFORE_REQUEST = "htmx:before:request";  // before it is sent: can be prevented
export const AFTER_REQUEST = "htmx:after:request";  // there is a response, before the swap
export const FINALLY_REQUEST = "htmx:finally:request";  // it is over, with or without a response
export const RESPONSE_ERROR = "htmx:response:error";  // the status is an error
export const REQUEST_ERROR = "htmx:error";  // no response at all; or, without ctx, something else failed
export const BEFORE_SWAP = "htmx:before:swap";  // {ctx, tasks}: can be prevented; a task has target, fragment, swapSpec
export const BEFORE_SETTLE = "htmx:before:settle";  // at an element whose content was swapped, before anything else runs
export const AFTER_SWAP = "htmx:after:swap";  // {ctx}
export const AFTER_PROCESS = "htmx:after:process";  // at an element that was inserted

// hx-ws: {connection} with url, config and socket.
export const WS_BEFORE_CONNECTION = "htmx:ws:before:connection";
export const WS_AFTER_CONNECTION = "htmx:ws:after:connection";
export const WS_BEFORE_INCOMING = "htmx:ws:before:message:incoming";  // {connection, message}: prevented, nothing is swapped
export const WS_AFTER_INCOMING = "htmx:ws:after:message:incoming";  // {connection, message}
export const WS_CLOSE = "htmx:ws:close";  // {connection, reason, code}: without a code this page closed it
export const WS_ERROR = "htmx:ws:error";  // {connection, error}
