"""Run folder in, line costs out, in a process of its own."""
