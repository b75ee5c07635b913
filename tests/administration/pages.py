"""Addresses and texts of the administration's pages."""

from __future__ import annotations

from django.db.models import Model
from django.test import Client
from django.urls import reverse


def list_url(model: str) -> str:
    return reverse(f"admin:chat_{model}_changelist")


def row_url(row: Model, page: str = "change") -> str:
    return reverse(f"admin:chat_{row._meta.model_name}_{page}", args=[row.pk])


def text_of(client: Client, url: str, **query: object) -> str:
    response = client.get(url, query)
    assert response.status_code == 200, (url, response.headers)
    return response.content.decode()
