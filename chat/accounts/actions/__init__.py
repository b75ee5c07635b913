"""Changes of accounts: people and teams, access tokens, set-up."""
