/* What is said where a page could not be fetched: this device may have no network, or the server may be away. */
import { gettext } from "./i18n.js";

export const unreachable = () => (navigator.onLine
  ? gettext("Can’t reach the server. Try again in a moment.")
  : gettext("You’re offline. Try again when you’re back online."));
