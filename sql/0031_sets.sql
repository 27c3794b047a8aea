-- Whole sets of jobs, by one statement: procedures for operators that begin an operation. See sql/README.md.

-- defines dt_begin_operation
-- defines dt_redrive_all
-- defines dt_shift_all d36b63e138c5
-- defines dt_cancel_all f4d05aacd58e
