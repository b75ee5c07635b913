"""Headers of every answer that Django has none of its own for."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

# What a page could ask a person's device for. None of ours does, and no text of a model, no
# preview and no extension of a page may do so in our name.
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
    """A middleware: no page may use a camera, a microphone, a place, or another device."""

    def with_header(request: HttpRequest) -> HttpResponse:
        response = respond(request)
        response.headers.setdefault("Permissions-Policy", PERMISSIONS)
        return response

    return with_header
