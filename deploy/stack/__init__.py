"""The local stack as a library: `deploy/local`, `deploy/quickstart` and the tests' servers are made of it.

cli → stack → part (servers/*, programs) → process, ports, state. Nothing here knows what a job is.
"""
