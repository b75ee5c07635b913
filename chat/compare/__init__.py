"""Several models answer one message side by side, and people choose the answer to go on with."""
