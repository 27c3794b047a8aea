-- The session that waits for rows of the inbox sees operations that are due, too.

-- defines dt_watch_inbox
