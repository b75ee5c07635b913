"""The live endpoints: authenticate, subscribe, forward. Nothing here owns an upstream."""
