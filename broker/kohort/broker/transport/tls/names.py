"""The subject of a client certificate in Java's form (RFC 2253), and rules that map it to a name.

Source: java's X500Principal.getName, Kafka's SslPrincipalMapper.
"""

import re
from collections.abc import Callable, Iterator

ANONYMOUS = "ANONYMOUS"

_KEYWORDS = {
    bytes.fromhex(oid): name
    for name, oid in {
        "CN": "550403", "C": "550406", "L": "550407", "ST": "550408", "STREET": "550409",
        "O": "55040a", "OU": "55040b", "UID": "0992268993f22c640101", "DC": "0992268993f22c640119",
    }.items()
}  # fmt: skip
_TEXT = {12: "utf-8", 19: "ascii", 20: "latin-1", 22: "ascii", 28: "utf-32-be", 30: "utf-16-be"}
"""The text encoding by the tag of a DER string."""
_SEQUENCE, _CONTEXT_0 = 0x30, 0xA0


def subject_of(certificate: bytes) -> str:
    """Return the subject of a DER certificate, the last part first. Raises: ValueError."""
    try:
        [(_, whole)] = parts_of(certificate)
        fields = [each for each in parts_of(next(parts_of(whole))[1]) if each[0] != _CONTEXT_0]
        subject = fields[4][1]  # After number, algorithm, issuer and validity.
        names = ["+".join(_attribute(pair) for _, pair in parts_of(name)) for _, name in parts_of(subject)]
    except (IndexError, StopIteration, UnicodeDecodeError) as error:
        raise ValueError(f"a certificate whose subject cannot be read: {error}") from None
    return ",".join(reversed(names))


def parts_of(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield tag and content of each element. Raises: ValueError, IndexError."""
    position = 0
    while position < len(data):
        tag, size = data[position], data[position + 1]
        position += 2
        if size & 0x80:
            count = size & 0x7F
            size = int.from_bytes(data[position : position + count], "big")
            position += count
        if position + size > len(data):
            raise ValueError("a certificate that is cut off")
        yield tag, data[position : position + size]
        position += size


def _attribute(pair: bytes) -> str:
    (_, oid), (tag, value) = parts_of(pair)
    keyword = _KEYWORDS.get(oid)
    if keyword is None or tag not in _TEXT:
        head = bytes((tag, len(value))) if len(value) < 0x80 else bytes((tag, 0x81, len(value)))
        return f"{keyword or _dotted(oid)}=#{(head + value).hex()}"
    return f"{keyword}={_escaped(value.decode(_TEXT[tag]))}"


def _dotted(oid: bytes) -> str:
    numbers, number = [], 0
    for byte in oid:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _escaped(text: str) -> str:
    text = re.sub(r'([,+"\\<>;])', r"\\\1", text)
    if text[:1] in ("#", " "):
        text = "\\" + text
    return text[:-1] + "\\ " if text[-1:] == " " and len(text) > 1 and text != "\\ " else text


_RULE = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|\n|$)")

Mapper = Callable[[str], str]
"""Returns a principal's name for a subject. Raises: ValueError if no rule matches."""


def mapper_of(rules: str) -> Mapper:
    """Return the function that applies the first matching rule. Raises: ValueError for invalid rules."""
    made: list[Callable[[str], str | None]] = []
    position = 0
    rules = rules.strip() or "DEFAULT"
    while position < len(rules):
        found = _RULE.match(rules, position)
        if found is None:
            raise ValueError(f"a rule is DEFAULT or RULE:PATTERN/REPLACEMENT/[LU], not {rules[position:]!r}")
        made.append(_rule(found))
        position = found.end()

    def name_of(subject: str) -> str:
        for each in made:
            name = each(subject)
            if name is not None:
                return name
        raise ValueError(f"no rule of ssl.principal.mapping.rules matches {subject!r}")

    return name_of


def _rule(found: "re.Match[str]") -> Callable[[str], str | None]:
    if found[1]:
        return lambda subject: subject
    try:
        pattern = re.compile(found[2])
    except re.error as error:
        raise ValueError(f"the pattern {found[2]!r} is wrong: {error}") from None
    replacement, case = found[3], found[4]
    if any(int(number) > pattern.groups for number in re.findall(r"\$(\d)", replacement)):
        raise ValueError(f"the replacement {replacement!r} names a group that {found[2]!r} does not have")

    def apply(subject: str) -> str | None:
        match = pattern.fullmatch(subject)
        if match is None:
            return None
        name = re.sub(r"\$(\d)", lambda each: match[int(each[1])] or "", replacement)
        return {"L": name.lower, "U": name.upper}.get(case, lambda: name)()

    return apply
