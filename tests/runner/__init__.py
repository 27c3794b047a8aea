"""tests/run as a library: cli → suites → cmocka, pytests, checks → report. Servers come from deploy/stack."""
