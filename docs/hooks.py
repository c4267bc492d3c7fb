"""What the documentation site needs besides `docs/`: pages from the root, links between them, and lists of names."""

import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
PAGES = {
    "index.md": "README.md",
    "results.md": "benchmarks/README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
}
"""Pages of the site, and the files that they are made of."""
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def on_files(files, config):
    """Add the pages."""
    for page, source in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown, page, config, files):
    """Make links lead to pages of the site, and fill in lists."""
    source = PAGES.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    return linked(filled(markdown), source)


def linked(markdown, source):
    """A file's text with links between pages of the site. What is not on the site is named without a link."""
    return LINK.sub(lambda found: _link(found, source), markdown)


def _link(found, source):
    image, text, target = found.groups()
    path, hash_, anchor = target.partition("#")
    if not path or ":" in target:
        return found[0]
    there = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    pages = {file: page for page, file in PAGES.items()} | {posixpath.dirname(file): page for page, file in PAGES.items()}
    if there in pages:
        return f"{image}[{text}]({pages[there]}{hash_}{anchor})"
    if there.startswith("docs/"):
        return f"{image}[{text}]({there.removeprefix('docs/')}{hash_}{anchor})"
    return text


def filled(markdown):
    """The text with tables of tasks and methods where it asks for them."""
    for name, rows in (("tasks", _tasks), ("methods", _methods)):
        marker = f"<!-- {name} -->"
        if marker in markdown:
            markdown = markdown.replace(marker, "\n".join(rows()))
    return markdown


def _tasks():
    from hrac.experiments.tasks import TASKS

    yield from ("| name | what it is |", "|---|---|")
    for name, task in TASKS.items():
        yield f"| `{name}` | {task.summary} |"


def _methods():
    from hrac.experiments.methods import METHODS

    yield from ("| name | what it is |", "|---|---|")
    for name, method in METHODS.items():
        yield f"| `{name}` | {method.summary} |"
