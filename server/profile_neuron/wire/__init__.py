"""Messages between the processes, their encoding, and the descriptors they travel on."""
