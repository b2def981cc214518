# SPDX-License-Identifier: Apache-2.0
"""NOTICE names every locked package whose licence asks more than to be named."""

import re
from importlib.metadata import PackageNotFoundError, metadata

from tests.house.lock_files import EXTRAS_OF, FOLDER, pins_of
from tests.house.source_tree import REPOSITORY

PERMISSIVE = re.compile(
    r"\b(MIT|BSD|Apache|PSF|Python Software Foundation|ISC|Unlicense|HPND|WTFPL|Public Domain)\b", re.IGNORECASE
)
COPYLEFT = re.compile(r"GPL|MPL|Mozilla|GNU")


def licence_of(name: str) -> str | None:
    """Return the licence that an installed package declares; None if it is not installed here."""
    try:
        facts = metadata(name).json
    except PackageNotFoundError:
        return None
    classifiers = [line for line in facts.get("classifier", ()) if line.startswith("License ::")]
    return " ".join([str(facts.get("license_expression", "")), str(facts.get("license", ""))[:200], *classifiers])


def test_the_notice_names_what_is_not_permissive() -> None:
    """LGPL, MPL and packages that state no licence; packages not installed on this machine are left out."""
    texts = [(REPOSITORY / FOLDER / f"{lock}.txt").read_text(encoding="utf-8") for lock in EXTRAS_OF]
    licences = {pin.name: licence_of(pin.name) for text in texts for pin in pins_of(text)}
    demanding = {
        name
        for name, licence in licences.items()
        if licence is not None and (COPYLEFT.search(licence) or not PERMISSIVE.search(licence))
    }

    named = set(re.findall(r"[a-z-]+", (REPOSITORY / "NOTICE").read_text(encoding="utf-8")))

    assert {"psycopg", "pyte"} <= demanding
    assert demanding <= named
