"""The server's side of the agent: how to start one and talk to it."""
