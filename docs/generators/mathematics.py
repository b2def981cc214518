# SPDX-License-Identifier: Apache-2.0
"""MkDocs hook: formulas become MathML when the site is built; a reader's browser loads no script or font for them.

The pages write LaTeX between dollars, which the arithmatex extension marks; GitHub shows the same text as formulas.
"""

import html
import re

from latex2mathml.converter import convert

INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)

IDENTIFIER_TILDE, RELATION_TILDE = "<mi>&#x0007E;</mi>", "<mo>&#x0223C;</mo>"
r"""The converter writes \sim as an identifier, without space around it; a relation has space."""


def on_page_content(content: str, **_: object) -> str:
    """Return a page's HTML with its formulas as MathML."""
    content = BLOCK.sub(lambda found: f'<div class="formula">{_mathml(found[1], "block")}</div>', content)
    return INLINE.sub(lambda found: _mathml(found[1], "inline"), content)


def _mathml(latex: str, display: str) -> str:
    return str(convert(html.unescape(latex).strip(), display=display)).replace(IDENTIFIER_TILDE, RELATION_TILDE)
