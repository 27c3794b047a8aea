/*
 * Days of the Gregorian calendar, before its time too. Pure. A day is a number: days since 1970-01-01.
 */
#ifndef DT_BASE_CIVIL_H
#define DT_BASE_CIVIL_H

#include <stdbool.h>
#include <stdint.h>

/* A day and a time of day; month and day count from 1. */
struct dt_civil {
    int year, month, day, hour, minute, second;
};

bool dt_civil_leap_year(int year);
/* Days of the month, 28 to 31. */
int dt_civil_days_in_month(int year, int month);
/* The number of a day. */
int64_t dt_civil_days(int year, int month, int day);
/* The day with that number, at midnight. */
struct dt_civil dt_civil_of_days(int64_t days);
/* Its weekday: 0 is Sunday. */
int dt_civil_weekday(int64_t days);

#endif
