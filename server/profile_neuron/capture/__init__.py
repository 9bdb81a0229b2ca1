"""Readers of what a run left on disk: bytes in, core types out."""
