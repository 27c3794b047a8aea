"""What stands at the other end of callbacks and pops while a load runs, and what must hold of what it saw."""
