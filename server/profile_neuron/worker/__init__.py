"""The process that runs user code: imports the file, runs one function, leaves a capture."""
