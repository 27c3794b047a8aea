"""The servers that the stack runs on: real ones, on the loopback, with private data folders."""
