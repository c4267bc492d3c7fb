"""One HTML file of a report: the template, the styles, the scripts and the data, with nothing to load from elsewhere."""

import base64
import hashlib
import html
import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

from hrac.envs import palette
from hrac.view import colours

SCRIPTS = ("network.js", "charts.js", "map.js", "player.js", "report.js")
COLOURS = (
    *("FLOOR", "WALL", "NEAR", "AT_K", "BEYOND", "CONTOUR", "MISSED", "EDGE"),
    *("AGENT", "TARGET", "KEY", "CHEST", "BLOCK", "CHASM", "DOOR", "SUBGOAL", "APPLE", "BOMB"),
)
"""Those of all pictures. Of the first ones the dark page has its own."""


def page(data: Mapping[str, Any]) -> str:
    """The file's content. A browser runs the two scripts of the package only, whatever the data says, and loads nothing."""
    program = "\n".join(_asset(name) for name in SCRIPTS)
    parts = {
        "policy": policy(_asset("plotly-basic.min.js"), program),
        "title": html.escape(str(data["title"])),
        "style": _colours() + _asset("report.css"),
        "plotly": _asset("plotly-basic.min.js"),
        "program": program,
        "data": as_json(data),
    }
    text = _asset("report.html")
    for name, part in parts.items():
        before, mark, after = text.partition(f"<!--{name}-->")
        assert mark, name
        text = before + part + after
    return text


def as_json(data: Any) -> str:
    r"""Data for a script element. No tag can end or begin in it.

    >>> as_json({"name": "</script><b>"})
    '{"name":"\\u003c/script\\u003e\\u003cb\\u003e"}'
    """
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")


def policy(*scripts: str) -> str:
    """The content security policy: these scripts and no others, nothing from the network."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'"


def _colours() -> str:
    """The colours of the package: those of pictures, and `--g0` to `--g9` of curves."""
    pictures = "".join(f"--{_css_name(name)}:#{bytes(getattr(palette, name)).hex()};" for name in COLOURS)
    light, dark = ("".join(f"--g{i}:{each};" for i, each in enumerate(ten)) for ten in (colours.COLOURS, colours.ON_DARK))
    return f':root{{{pictures}{light}}}\n:root[data-theme="dark"]{{{dark}}}\n'


def _css_name(colour: str) -> str:
    return colour.lower().replace("_", "-")


def _asset(name: str) -> str:
    return (resources.files("hrac.reports") / "assets" / name).read_text(encoding="utf-8")
