/* Pages that add a passkey or sign in with one. */
import "../accounts/passkeys.js";
import "./base.js";
