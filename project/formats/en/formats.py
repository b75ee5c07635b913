"""Dates of English as it is written in the United States: "Nov 24, 3:05 PM"."""

DATE_FORMAT = "M j, Y"
TIME_FORMAT = "g:i A"
# With the time zone, because times in the administration are compared with logs.
DATETIME_FORMAT = "M j, Y, g:i A T"
YEAR_MONTH_FORMAT = "F Y"
MONTH_DAY_FORMAT = "M j"
SHORT_DATE_FORMAT = "M j, Y"
SHORT_DATETIME_FORMAT = "M j, Y, g:i A T"
FIRST_DAY_OF_WEEK = 0
