"""Clients that mean no good, and the honest callers beside them."""
