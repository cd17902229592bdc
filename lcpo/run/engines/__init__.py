"""Where jobs run. `engine` has the protocol, finds engines by name, and runs a plan."""
