"""Day before month and a clock of 24 hours, as the conversations' own pages have them."""

DATE_FORMAT = "j F Y"
TIME_FORMAT = "H:i"
# With the zone: the administration's times are compared with logs, and no script translates them.
DATETIME_FORMAT = "j F Y, H:i T"
YEAR_MONTH_FORMAT = "F Y"
MONTH_DAY_FORMAT = "j F"
SHORT_DATE_FORMAT = "j M Y"
SHORT_DATETIME_FORMAT = "j M Y, H:i T"
FIRST_DAY_OF_WEEK = 1
