/*
 * Days of the Gregorian calendar. Years are counted from March, so that the leap day is the last of its year: before
 * month m of such a year (March = 0) there are (153 m + 2) / 5 days.
 */
#include "civil.h"

#define CYCLE_DAYS 146097 /* of 400 years */
#define EPOCH_DAYS 719468 /* from 0000-03-01 to 1970-01-01 */

bool dt_civil_leap_year(int year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

int dt_civil_days_in_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return month == 2 && dt_civil_leap_year(year) ? 29 : days[month - 1];
}

int64_t dt_civil_days(int year, int month, int day)
{
    int64_t y = month > 2 ? year : year - 1;
    int64_t m = month > 2 ? month - 3 : month + 9;
    int64_t cycle = (y >= 0 ? y : y - 399) / 400;
    int64_t in_cycle = y - cycle * 400;
    return cycle * CYCLE_DAYS + in_cycle * 365 + in_cycle / 4 - in_cycle / 100 + (153 * m + 2) / 5 + day - 1 -
           EPOCH_DAYS;
}

struct dt_civil dt_civil_of_days(int64_t days)
{
    int64_t d = days + EPOCH_DAYS;
    int64_t cycle = (d >= 0 ? d : d - (CYCLE_DAYS - 1)) / CYCLE_DAYS;
    int64_t in_cycle = d - cycle * CYCLE_DAYS;
    int64_t y = (in_cycle - in_cycle / 1460 + in_cycle / 36524 - in_cycle / 146096) / 365;
    int64_t in_year = in_cycle - (365 * y + y / 4 - y / 100);
    int64_t m = (5 * in_year + 2) / 153;
    return (struct dt_civil){
        .year = (int)(y + cycle * 400 + (m >= 10)),
        .month = (int)(m < 10 ? m + 3 : m - 9),
        .day = (int)(in_year - (153 * m + 2) / 5 + 1),
    };
}

int dt_civil_weekday(int64_t days)
{
    int64_t weekday = (days + 4) % 7; /* 1970-01-01 was a Thursday */
    return (int)(weekday < 0 ? weekday + 7 : weekday);
}
