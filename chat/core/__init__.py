"""What the engine's packages share: encryption, change notifications, metrics, threads, errors.

It must not import other packages of the project, except `events`.
"""
