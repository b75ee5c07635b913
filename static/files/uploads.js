/* Uploads of files: some at once, with their progress. Each can be canceled. */
import { csrfToken } from "../base/dom.js";
import { gettext } from "../base/i18n.js";

// Over HTTP/1.1 browsers open six connections to a server, and the page needs some of them.
const AT_ONCE = 3;
const SERVER_ERROR = 500;
const LOST = gettext("The upload was interrupted.");

/* The message is for people. `mayHelp`: trying again may help. */
class UploadFailed extends Error {
  constructor(message, mayHelp) {
    super(message);
    this.mayHelp = mayHelp;
  }
}

let running = 0;
const waiting = [];

/* Gives the chip of the file as HTML. Throws `UploadFailed`, also when `signal` is aborted. */
export async function upload(address, file, { signal, onProgress }) {
  if (running >= AT_ONCE) await new Promise(resolve => { waiting.push(resolve); });
  running += 1;
  try {
    return await send(address, file, { signal, onProgress });
  } finally {
    running -= 1;
    waiting.shift()?.();
  }
}

function send(address, file, { signal, onProgress }) {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(new UploadFailed(LOST, true));
    const request = new XMLHttpRequest();
    const body = new FormData();
    body.append("file", file, file.name);
    request.open("POST", address);
    request.setRequestHeader("X-Requested-With", "XMLHttpRequest");
    request.setRequestHeader("X-CSRFToken", csrfToken());
    request.upload.addEventListener("progress", ({ loaded, total }) => onProgress(Math.floor(100 * loaded / total)));
    for (const type of ["error", "abort", "timeout"]) {
      request.addEventListener(type, () => reject(new UploadFailed(LOST, true)));
    }
    request.addEventListener("load", () => {
      const isText = request.getResponseHeader("Content-Type")?.startsWith("text/plain");
      // A redirect leads to the page for signing in.
      const isOurs = new URL(request.responseURL).pathname === address;
      if (request.status === 200 && isOurs) resolve(request.responseText);
      else reject(new UploadFailed(isText ? request.responseText : LOST, !isText || request.status >= SERVER_ERROR));
    });
    signal.addEventListener("abort", () => request.abort());
    request.send(body);
  });
}
