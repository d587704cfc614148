"""What a simulation refuses."""


class LeftSimulation(Exception):
    """The code wanted something of the real world, which a seed cannot give again."""
