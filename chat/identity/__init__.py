"""Sign-in with the accounts of a company, over OpenID Connect."""
