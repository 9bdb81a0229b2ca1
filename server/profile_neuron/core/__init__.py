"""Data and rules of the profiler: values in, values out, no files, clock or threads."""
