"""Private servers with TLS and authentication on, for tests of connections: certificates are made when a test begins."""
