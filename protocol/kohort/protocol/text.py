"""Other people's words in our own: short enough for every answer, and harmless on a terminal."""

MAX_MESSAGE_CHARACTERS = 1024
MAX_QUOTED_CHARACTERS = 120

_GAP = " ... "


def short_text(text: str, max_characters: int = MAX_MESSAGE_CHARACTERS) -> str:
    """Return `text` with what is not printable escaped, and without its middle where it is longer than this.

    What is wrong is said at a message's beginning or at its end; what is long is a name within.
    """
    cut = _cut(text, max_characters)
    if cut.isprintable():
        return cut
    return _cut("".join(map(_escaped, cut)), max_characters)


def quoted(name: str, max_characters: int = MAX_QUOTED_CHARACTERS) -> str:
    """Return a name that somebody sent, in quotation marks and short enough to stand in a message."""
    return f"'{short_text(name, max_characters)}'"


def _cut(text: str, max_characters: int) -> str:
    if len(text) <= max_characters:
        return text
    tail = max_characters // 4
    return text[: max_characters - tail - len(_GAP)] + _GAP + text[-tail:]


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()
