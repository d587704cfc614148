"""Client text in error messages: shortened, and escaped for terminals."""

MAX_MESSAGE_CHARACTERS = 1024
MAX_QUOTED_CHARACTERS = 120

_GAP = " ... "


def short_text(text: str, max_characters: int = MAX_MESSAGE_CHARACTERS) -> str:
    """Return `text` with unprintable characters escaped. A longer text loses its middle.

    The important parts of a message are its beginning and its end; usually a long name is between them.
    """
    cut = _cut(text, max_characters)
    if cut.isprintable():
        return cut
    return _cut("".join(map(_escaped, cut)), max_characters)


def quoted(name: str, max_characters: int = MAX_QUOTED_CHARACTERS) -> str:
    """Return a client's name in quotation marks, shortened for a message."""
    return f"'{short_text(name, max_characters)}'"


def _cut(text: str, max_characters: int) -> str:
    if len(text) <= max_characters:
        return text
    tail = max_characters // 4
    return text[: max_characters - tail - len(_GAP)] + _GAP + text[-tail:]


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()
