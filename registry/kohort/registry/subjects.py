"""Names of subjects, and their contexts: `:.staging:orders` is `orders` in the context `.staging`.

A plain name is in the default context, `.`. Ids count within a context.
"""

from kohort.registry.errors import RegistryError

DEFAULT_CONTEXT = "."
NAME_LENGTH_MAX = 1_000
_RESERVED = ("__GLOBAL", "__EMPTY")


def context_of(subject: str | None) -> str:
    """Return the context of a subject, `.` for a plain name."""
    if subject is not None and subject.startswith(":."):
        end = subject.find(":", 2)
        if end != -1:
            return subject[1:end]
    return DEFAULT_CONTEXT


def plain_name(subject: str) -> str:
    """Return the subject without its context."""
    if not subject.startswith(":."):
        return subject
    end = subject.find(":", 2)
    return subject if end == -1 else subject[end + 1 :]


def in_context(subject: str, context: str) -> str:
    """Return a plain name with its context, unless that is the default one."""
    return subject if context == DEFAULT_CONTEXT else f":{context}:{subject}"


def whole_context(context: str) -> str | None:
    """Return the name by which settings of a whole context are kept; None for the default one: all."""
    return None if context == DEFAULT_CONTEXT else f":{context}:"


def normal(subject: str) -> str:
    """Return the one name of a subject: `:.:orders` is `orders`."""
    return plain_name(subject) if context_of(subject) == DEFAULT_CONTEXT else subject


def check_subject(subject: str) -> None:
    """Return if it may be the name of a subject. Raises: RegistryError."""
    name = plain_name(subject)
    is_wrong = not name or name in _RESERVED or len(subject) > NAME_LENGTH_MAX
    if is_wrong or any(each < " " or each == "\x7f" for each in subject):
        raise RegistryError(422, 42208, f"The specified subject '{subject}' is not a valid subject.")
