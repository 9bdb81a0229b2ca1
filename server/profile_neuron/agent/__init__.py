"""The process that starts, limits and ends the worker, and says why it died."""
