"""Response headers that Django doesn't set itself."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

# Browser features that need permission. Our pages use none of them, and previews and text from
# models must not use them in our name.
_DEVICES = (
    *("accelerometer", "camera", "display-capture", "geolocation", "gyroscope", "hid"),
    *(
        "magnetometer",
        "microphone",
        "midi",
        "payment",
        "publickey-credentials-get",
        "screen-wake-lock",
    ),
    *("serial", "usb", "xr-spatial-tracking"),
)
PERMISSIONS = ", ".join(f"{device}=()" for device in _DEVICES)

Respond = Callable[[HttpRequest], HttpResponse]


def permissions_policy(respond: Respond) -> Respond:
    """Middleware that denies all pages access to the camera, microphone, location and other
    devices."""

    def with_header(request: HttpRequest) -> HttpResponse:
        response = respond(request)
        response.headers.setdefault("Permissions-Policy", PERMISSIONS)
        return response

    return with_header
