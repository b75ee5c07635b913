"""Pages that stand inside others and may do less than any: they have no origin and ask nobody."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.clickjacking import xframe_options_sameorigin
from django.views.decorators.http import require_GET

# Draws what a model wrote. Styles are part of every drawing; a request to anybody is not.
DIAGRAM_POLICY = "; ".join(
    (
        *("sandbox allow-scripts", "default-src 'none'", "script-src 'self'", "font-src 'self'"),
        *("style-src 'self' 'unsafe-inline'", "img-src data:", "base-uri 'none'"),
        *("form-action 'none'", "frame-ancestors 'self'"),
    )
)


# The same for everybody, and nothing in it: what is drawn comes from the page around it.
@require_GET
@xframe_options_sameorigin
def diagram(request: HttpRequest) -> HttpResponse:
    response = render(request, "base/diagram_frame.html")
    response["Content-Security-Policy"] = DIAGRAM_POLICY
    response["Cache-Control"] = "private, max-age=3600"
    return response
