"""Numbers that nobody can foretell, from the system, as those of `secrets`, which loads OpenSSL as well."""

from random import SystemRandom

randbelow = SystemRandom().randrange
"""Returns a number from 0 up to a limit, without the limit."""
