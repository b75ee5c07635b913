"""Comments of people on turns of a conversation, and on passages of them."""
