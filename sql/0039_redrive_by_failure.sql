UPDATE schema_migrations SET needs = 37 WHERE applied_at = 0;

-- dt_redrive_all takes the dead by when they failed last, which is when they died: one that was to run the day before, and died yesterday
-- after its retries, is one of yesterday's dead.

-- defines dt_begin_operation 9557ac0f0540
-- defines dt_redrive_all fd44974c08ef
