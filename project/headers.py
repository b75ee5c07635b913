"""Response headers that Django doesn't set itself."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

# Browser features that need permission. Our pages use none of them but passkeys, and previews and text from
# models must not use them in our name.
_DEVICES = (
    *("accelerometer", "camera", "display-capture", "geolocation", "gyroscope", "hid"),
    *(
        "magnetometer",
        "microphone",
        "midi",
        "payment",
        "screen-wake-lock",
    ),
    *("serial", "usb", "xr-spatial-tracking"),
)
_OTHERS = ", ".join(f"{device}=()" for device in _DEVICES)
PERMISSIONS = f"{_OTHERS}, publickey-credentials-get=()"
# Pages on which people sign in, or add a passkey.
PASSKEY_PATHS = ("/accounts/", "/settings/two-step/")
WITH_PASSKEYS = f"{_OTHERS}, publickey-credentials-get=(self)"

Respond = Callable[[HttpRequest], HttpResponse]


def permissions_policy(respond: Respond) -> Respond:
    """Middleware that denies all pages access to the camera, microphone, location and other
    devices."""

    def with_header(request: HttpRequest) -> HttpResponse:
        response = respond(request)
        uses_passkeys = request.path_info.startswith(PASSKEY_PATHS)
        policy = WITH_PASSKEYS if uses_passkeys else PERMISSIONS
        response.headers.setdefault("Permissions-Policy", policy)
        return response

    return with_header
