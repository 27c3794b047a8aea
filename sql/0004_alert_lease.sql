-- dt_watch_alerts waits no longer, and returns when the lease of the judge would end.
-- No program before it: dt_watch_alerts has other parameters.

-- defines dt_watch_alerts 1e82bb6a40c3
