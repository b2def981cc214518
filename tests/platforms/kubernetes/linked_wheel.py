# SPDX-License-Identifier: Apache-2.0
"""A wheel of links: installed, it lends an environment the packages of this one, without a download of them."""

import site
import sys
import zipfile
from pathlib import Path

_METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
_WHEEL = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_SCRIPTS = "[console_scripts]\ntorchrun = torch.distributed.run:main\n"


def write_linked_wheel(folder: Path, name: str, version: str) -> Path:
    """Write a wheel that says it is some package; it has the command `torchrun`, and paths to this environment.

    Args:
        folder: Folder for the wheel.
        name: Name of the package that it takes the place of.
        version: Version of that package.
    """
    packages = [path for path in site.getsitepackages() if path.startswith(sys.prefix)]
    lines = "".join(f"import site; site.addsitedir({path!r})\n" for path in packages)
    info = f"{name}-{version}.dist-info"
    files = {
        "linked.pth": lines,
        f"{info}/METADATA": _METADATA.format(name=name, version=version),
        f"{info}/WHEEL": _WHEEL,
        f"{info}/entry_points.txt": _SCRIPTS,
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return wheel
