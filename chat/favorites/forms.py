"""The form that names a model of a server."""

from __future__ import annotations

from django import forms


class ModelForm(forms.Form):
    server = forms.UUIDField()
    model = forms.CharField(max_length=200)
