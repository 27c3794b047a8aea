-- The wait of a dispatcher that has no Redis: one statement, in which the server looks again and again, in place of one a look.

-- defines dt_watch
