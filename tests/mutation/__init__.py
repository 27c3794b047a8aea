"""tests/mutants as a library: cli → campaign → faults (what can be planted), workshop (a copy of the tree, its builds), concerns (which suites)."""
