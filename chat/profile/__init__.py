"""Profile pictures: uploads, which are encoded again, and what browsers get."""
