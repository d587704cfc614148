"""The parts that a broker is composed of, alone or as a member of a cluster."""
