"""The language server: the daemon in the words of the Language Server Protocol."""
