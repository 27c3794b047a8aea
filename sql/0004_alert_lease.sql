-- dt_watch_alerts returns at once, and its result says how long the lease of the judge still holds.
-- No program before it: dt_watch_alerts has other parameters.

-- defines dt_watch_alerts 814af3c457e7
