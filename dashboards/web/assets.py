# SPDX-License-Identifier: Apache-2.0
"""The static files, under URLs that have their content's hash: a browser keeps them for ever, and never an old one.

They are ours, and plotly.js as it lies in the installed wheel. Each is compressed once, when it is first asked for.
Starlette's `StaticFiles` knows neither such URLs nor compressed files: behind `GZipMiddleware` it would compress
plotly.js again for every browser, 0.15 s of CPU each time, and a mount is no route whose scope a test can walk.
"""

import gzip
import hashlib
import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from plotly.offline import get_plotlyjs
from starlette.responses import Response

from ringtune.service.errors import NotFound

FOLDER = Path(__file__).parent / "static"
PREFIX = "/static/"
KEPT_FOR_EVER = "public, max-age=31536000, immutable"
HASH_DIGITS = 16
PLOTLY = "plotly.js"
STYLE_ID = re.compile(r"getElementById\(.([0-9a-f]{64}).\)")
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class Asset:
    """One file.

    Attributes:
        url: Path at which it is served.
    """

    def __init__(self, name: str, content: bytes) -> None:
        """Take a file's content; its name's ending says its type."""
        stem, ending = Path(name).stem, Path(name).suffix
        digest = hashlib.sha256(content).hexdigest()
        self.url = f"{PREFIX}{stem}.{digest[:HASH_DIGITS]}{ending}"
        self._etag = f'"{digest[:HASH_DIGITS]}"'
        self._media_type = MEDIA_TYPES[ending]
        self._content = content

    def response(self, accepted_encodings: str) -> Response:
        """Return the file, compressed if that is accepted."""
        headers = {"cache-control": KEPT_FOR_EVER, "etag": self._etag, "vary": "accept-encoding"}
        content = self._content
        if "gzip" in {part.partition(";")[0].strip() for part in accepted_encodings.split(",")}:
            content, headers["content-encoding"] = self._compressed, "gzip"
        return Response(content, headers=headers, media_type=self._media_type)

    @cached_property
    def _compressed(self) -> bytes:
        return gzip.compress(self._content, mtime=0)


class Assets:
    """All static files.

    Attributes:
        ids_of_styles: Ids of style sheets that plotly.js writes into a page when it is loaded, unless they are there;
            the policy forbids that, and they are for maps, which no figure has.
    """

    def __init__(self) -> None:
        """Read them."""
        ours = {path.name: path.read_bytes() for path in sorted(FOLDER.iterdir()) if path.suffix in MEDIA_TYPES}
        files = {**ours, PLOTLY: get_plotlyjs().encode()}
        self._by_name: Mapping[str, Asset] = {name: Asset(name, content) for name, content in files.items()}
        self._by_url: Mapping[str, Asset] = {asset.url: asset for asset in self._by_name.values()}
        self.ids_of_styles = tuple(STYLE_ID.findall(files[PLOTLY].decode()))

    @property
    def urls(self) -> frozenset[str]:
        """Return the paths by name."""
        return frozenset(self._by_url)

    def url(self, name: str) -> str:
        """Return where a file is, by the name that it has here."""
        return self._by_name[name].url

    def get(self, url: str) -> Asset:
        """Return a file.

        Raises:
            NotFound: If there is none; another version may have had it.
        """
        if url not in self._by_url:
            raise NotFound(f"{url[:200]} is no file of this version; reload the page that asked for it")
        return self._by_url[url]
