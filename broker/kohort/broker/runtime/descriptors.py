"""The number of files this process may open, and the part of it for the logs."""

from kohort.storage.open_files import FILES_PER_SEGMENT

try:
    import resource
except ImportError:  # Windows.
    resource = None  # type: ignore[assignment]

DESCRIPTORS_MAX = 1 << 20  # Beyond it a limit is as good as none, and some systems refuse to set it.
DESCRIPTORS_WITHOUT_LIMIT = 2_048
"""Where no limit can be asked for: the C library of Windows opens up to 8,192 files."""
OTHERS = 64  # Descriptors for neither logs nor clients: HTTP, the loop's own, files of the folder.


def raised_limit() -> int:
    """Return how many descriptors there may be, once the limit is as high as this process may set it."""
    if resource is None:
        return DESCRIPTORS_WITHOUT_LIMIT
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # The system has a limit of its own that it does not name.
            return soft
        return wanted
    return DESCRIPTORS_MAX if soft == resource.RLIM_INFINITY else soft


def segments_that_fit() -> int:
    """Return how many segments may have open files: they get half, clients most of the rest."""
    return raised_limit() // 2 // FILES_PER_SEGMENT


def connections_that_fit() -> int:
    """Return how many clients may be connected: with the descriptors left by logs and a few others."""
    limit = raised_limit()
    return max(limit - limit // 2 - OTHERS, 1)
