"""Questions, approvals and tool results that a run waits for."""
