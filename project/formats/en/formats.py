"""Day before month and a 24-hour clock, as on the pages of conversations."""

DATE_FORMAT = "j F Y"
TIME_FORMAT = "H:i"
# With the time zone, because times in the administration are compared with logs, and no script
# converts them.
DATETIME_FORMAT = "j F Y, H:i T"
YEAR_MONTH_FORMAT = "F Y"
MONTH_DAY_FORMAT = "j F"
SHORT_DATE_FORMAT = "j M Y"
SHORT_DATETIME_FORMAT = "j M Y, H:i T"
FIRST_DAY_OF_WEEK = 1
