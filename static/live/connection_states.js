/* The states of a page's connection. Of each: what may happen, the state that follows, and what is done then (an
   action of connection.js). The rest is ignored, such as what still comes out of a websocket that has closed
   meanwhile. */
export const TRANSITIONS = {
  // The websocket is opened; a stream may be, too.
  connecting: {
    opened: ["open", "greet"],
    lost: ["connecting", "noteLoss"],
    late: ["connecting", "startStream"],
    heard: ["streaming", "settleOnStream"],
    revived: ["connecting", "reopen"],
  },
  // It is open, but one that only opens is of no use: it has said nothing yet, or nothing since it was doubted.
  open: {
    opened: ["open", "greet"],
    spoke: ["live", "settleOnWebsocket"],
    lost: ["connecting", "noteLoss"],
    late: ["open", "startStream"],
    heard: ["streaming", "settleOnStream"],
    hidden: ["connecting"],
    revived: ["connecting", "reopen"],
  },
  live: {
    opened: ["open", "greet"],
    lost: ["connecting", "noteLoss"],
    hidden: ["connecting"],
    doubted: ["open"],
  },
  // A page that begins with the stream, which has brought nothing yet.
  blocked: {
    heard: ["streaming", "settleOnStream"],
    again: ["connecting", "reopen"],
    revived: ["connecting", "reopen"],
  },
  // The websocket rests.
  streaming: { again: ["probing", "reopen"], doubted: ["streaming", "renew"] },
  // It is opened beside the stream, and has to prove itself: does anything come back?
  probing: {
    opened: ["proving", "probe"],
    lost: ["streaming", "rest"],
    late: ["streaming", "rest"],
    doubted: ["probing", "renew"],
  },
  proving: {
    spoke: ["moving", "leaveStream"],
    lost: ["streaming", "rest"],
    late: ["streaming", "rest"],
    hidden: ["probing"],
    doubted: ["proving", "renew"],
  },
  // The stream ends before the websocket begins.
  moving: { moved: ["live", "greetAnew"], lost: ["streaming", "rest"], hidden: ["probing"] },
  gone: {},
};

// The page lives by the event stream.
export const ON_STREAM = ["streaming", "probing", "proving", "moving"];
export const WITHOUT_WEBSOCKET = ["blocked", "streaming", "gone"];
