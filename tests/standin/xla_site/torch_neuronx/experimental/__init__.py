"""Where the profiler of the XLA package is."""
