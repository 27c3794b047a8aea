UPDATE schema_migrations SET needs = 37 WHERE applied_at = 0;

-- The wait of dispatchers ends for schedules that are to be looked at, too: one that was made or changed just now may have a fire before
-- its maker would look again.

-- defines dt_watch_inbox 66e71580b99a
