"""The verbs: every change that people make, each one transaction, effects on commit."""
