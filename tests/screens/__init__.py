"""Screenshots of the pages and states of the product, to be looked at before and after a change."""
