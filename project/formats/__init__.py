"""How dates and times are written where Django writes them, such as in the admin's lists."""
