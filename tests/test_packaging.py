"""What the package says of itself."""

import re
import tomllib
from importlib import resources
from pathlib import Path

import hrac

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_all_files_name_one_version():
    assert hrac.__version__ == PROJECT["version"]
    assert f"\nversion: {hrac.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## [{hrac.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_the_package_is_marked_as_typed():
    assert (resources.files("hrac") / "py.typed").is_file()
    assert "Typing :: Typed" in PROJECT["classifiers"]


def test_the_readme_cites_the_paper_as_the_citation_file_does():
    cited = (ROOT / "CITATION.cff").read_text().partition("references:")[2]
    bibtex = re.search(r"```bibtex\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
    assert re.search(r"title: (.*)", cited)[1] in bibtex
    authors = re.findall(r"family-names: (\w+), given-names: (\w+)", cited)
    assert " and ".join(f"{family}, {given}" for family, given in authors) in bibtex
