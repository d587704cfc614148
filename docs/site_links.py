"""Files of the repository that the docs link to, as pages of the site; mkdocs calls these hooks.

A link out of docs/ works in the repository. The site has no such file: it gets a page with the file's text,
and a folder a page that lists its files.
"""

import os
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(?<!!)\[(?P<words>[^\]]*)\]\((?P<target>(?:\.\./|\./)*[^)#\s:]+)(?P<anchor>#[^)]*)?\)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
FOLDER = "repository"
"""The folder of the site that has these pages."""
LANGUAGES = {".py": "python", ".yml": "yaml", ".json": "json", ".go": "go", ".mjs": "javascript"}
SECRET_PARTS = frozenset({".git", ".venv", "build", "__pycache__"})


def on_files(files: Any, *, config: Any) -> Any:
    """Add a page for each file and folder that a page links to."""
    generated = import_module("mkdocs.structure.files").File.generated  # Only the site's tools have it.
    wanted: dict[str, None] = {}
    for page in files.documentation_pages():
        folder = PurePosixPath(page.src_uri).parent
        wanted |= dict.fromkeys(linked_paths(page.content_string, folder))
    for path in list(wanted):
        if (ROOT / path).is_dir():
            wanted |= dict.fromkeys(listed(path))
    for path in sorted(wanted):
        files.append(generated(config, page_of(path), content=text_of(path)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:
    """Return the page's text as the site has it."""
    if page.file.src_uri.startswith(f"{FOLDER}/"):
        return markdown
    return with_pages_of_files(markdown, PurePosixPath(page.file.src_uri).parent)


def with_pages_of_files(markdown: str, folder: PurePosixPath) -> str:
    """Return the text with links to the site's pages in place of links out of docs/."""

    def lead(found: re.Match[str]) -> str:
        path = outside(folder, found["target"])
        if path is None:
            return found[0]
        target = os.path.relpath(page_of(path), str(folder))
        return f"[{found['words']}]({target})"

    parts: list[str] = []
    end = 0
    for fence in FENCE.finditer(markdown):
        parts += [LINK.sub(lead, markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, LINK.sub(lead, markdown[end:])])


def linked_paths(markdown: str, folder: PurePosixPath) -> Iterator[str]:
    """Yield the paths, seen from the repository, of what a text of this folder of docs/ links to outside."""
    for found in LINK.finditer(FENCE.sub("", markdown)):
        path = outside(folder, found["target"])
        if path is not None:
            yield path


def outside(folder: PurePosixPath, target: str) -> str | None:
    """Return the path of a link's target, seen from the repository; None where a page of docs/ is meant."""
    path = os.path.normpath(f"docs/{folder}/{target}")
    if path.startswith("..") or SECRET_PARTS.intersection(PurePosixPath(path).parts):
        return None
    is_page = path.startswith("docs/") and not (ROOT / path).is_dir()
    return None if is_page or not (ROOT / path).exists() else path


def listed(path: str) -> list[str]:
    """Return the files of a folder that its page lists."""
    files = sorted(each for each in (ROOT / path).iterdir() if each.is_file())
    return [] if path.startswith("docs/") else [each.relative_to(ROOT).as_posix() for each in files]


def page_of(path: str) -> str:
    """Return the name of the site's page for a file or a folder."""
    return f"{FOLDER}/{path}.md"


def text_of(path: str) -> str:
    """Return the page of a file or a folder."""
    head = f"---\ntitle: {path}\nsearch:\n  exclude: true\n---\n\n# {path}\n\n"
    if (ROOT / path).is_dir():
        return head + "".join(f"- {line}\n" for line in _lines_of_folder(path))
    text = (ROOT / path).read_text(encoding="utf-8")
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{head}{fence}{LANGUAGES.get(PurePosixPath(path).suffix, 'text')}\n{text}\n{fence}\n"


def _lines_of_folder(path: str) -> Iterator[str]:
    here = PurePosixPath(page_of(path)).parent
    for each in sorted((ROOT / path).iterdir()):
        name = each.relative_to(ROOT).as_posix()
        if each.suffix == ".md" and path.startswith("docs/"):
            heading = each.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
            yield f"[{heading}]({os.path.relpath(name.removeprefix('docs/'), str(here))})"
        elif each.is_file() and not path.startswith("docs/"):
            yield f"[{each.name}]({os.path.relpath(page_of(name), str(here))})"
