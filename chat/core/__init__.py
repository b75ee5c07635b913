"""The base of the engine's packages: encryption, change notifications, metrics, threads, errors.

It must not import other packages of the project, except `events`.
"""
