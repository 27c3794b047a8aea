-- dt_explain knows the limits of topics, and pops.

-- defines dt_explain
