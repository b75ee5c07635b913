"""Durable execution: runs are claimed, executed, logged, followed and reaped here."""
