UPDATE schema_migrations SET needs = 33 WHERE applied_at = 0;

-- Procedures for whole sets refuse a date of zeros, which is no time: as a bound it would let all jobs through.

-- defines dt_begin_operation
