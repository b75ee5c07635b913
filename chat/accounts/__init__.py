"""Users, teams, invitations, sign-in, access tokens, and the first set-up."""
