"""What the engine's packages share: encryption, change notifications, metrics, threads, errors.

Imports no other package of the project but `events`.
"""
