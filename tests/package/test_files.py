# SPDX-License-Identifier: Apache-2.0
"""The contents of sdist and wheels: complete, for the glibc that the tag names, bound to no other C++ library."""

import io
import re
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from native.packaging.wheels import unpack
from tests.package.distributions import ARCHITECTURES, GLIBC, REPOSITORY, package_files, sdist, wheel

SOURCES_BUILT_BY_USERS = {
    "ringtune/mpi/mpi_plugin.cpp",
    "ringtune/mpi/transport/mpi/plugin_abi.h",
    "ringtune/graph_operations/jax_op.cpp",
    "ringtune/graph_operations/tensorflow_op.cpp",
    "ringtune/graph_operations/bindings/submission_abi.h",
    "ringtune/measuring/bench/programs/delay_switch.cpp",
    *(
        f"ringtune/graph_operations/torch_backend/{name}"
        for name in (
            "call.h",
            "call_book.h",
            "driving.h",
            "engine_group.h",
            "engine_work.h",
            "future_keeper.h",
            "gradient_hook.h",
            "surroundings.h",
            "torch_backend.cpp",
        )
    ),
    "ringtune/measuring/bench/programs/limit.cpp",
}
LICENCES = {"LICENSE", "NOTICE", "native/licenses/nanobind.txt", "native/licenses/robin-map.txt"}
NCCL_PLUGIN = "ringtune/nccl/libringtune_nccl_tuner.so"
MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}
SYSTEM_LIBRARIES = re.compile(r"lib(c|m|dl|pthread|rt)\.so\.\d|ld-linux.*\.so\.\d")


def tracked() -> list[str]:
    """Return the files of this repository, as git lists them."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, check=True, capture_output=True, text=True)
    return [name for name in listing.stdout.split("\0") if name]


def shared_objects(architecture: str) -> Iterator[tuple[str, Any]]:
    """Yield the name and the parsed ELF of every shared object in a wheel."""
    with zipfile.ZipFile(wheel(architecture)) as archive:
        for name in archive.namelist():
            if name.endswith(".so"):
                yield name, ELFFile(io.BytesIO(archive.read(name)))


def dynamic_symbols(elf: Any) -> Iterator[tuple[str, bool]]:
    """Yield name and whether it is defined there, for each dynamic symbol."""
    for symbol in elf.get_section_by_name(".dynsym").iter_symbols():
        if symbol.name:
            yield symbol.name, symbol["st_shndx"] != "SHN_UNDEF"


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_wheel_has_every_file_of_the_package(architecture: str) -> None:
    """Modules, templates, pages' files, migrations, sources that are compiled where they are needed, licences."""
    with zipfile.ZipFile(wheel(architecture)) as archive:
        names = set(archive.namelist())

    assert set() == package_files(tracked()) - names
    assert SOURCES_BUILT_BY_USERS | {NCCL_PLUGIN} <= names
    assert LICENCES <= {name.partition("/licenses/")[2] for name in names}
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"ringtune"}


def test_the_sdist_has_what_git_has() -> None:
    """All but the links for static tools; a wheel is built from it in an empty folder by `make wheels`."""
    with tarfile.open(sdist()) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    links = {name for name in tracked() if (REPOSITORY / name).is_symlink()}

    assert set() == set(tracked()) - links - names
    assert not {name for name in names if name.startswith(("build/", "dist/", ".venv"))}


def test_unpacking_again_touches_what_differs_alone(tmp_path: Path) -> None:
    """A build goes on after unpacking: changed files are replaced, strange ones removed, others keep their age."""
    unpack(sdist(), tmp_path)
    same, changed, strange = tmp_path / "native/CMakeLists.txt", tmp_path / "README.md", tmp_path / "native/strange.cpp"
    text, written_ns = changed.read_text(encoding="utf-8"), same.stat().st_mtime_ns
    changed.write_text("", encoding="utf-8")
    strange.write_text("", encoding="utf-8")

    unpack(sdist(), tmp_path)

    assert text == changed.read_text(encoding="utf-8")
    assert written_ns == same.stat().st_mtime_ns
    assert not strange.exists()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_shared_objects_are_for_the_tagged_machine_and_glibc(architecture: str) -> None:
    """Needed are libraries of glibc alone, and no symbol of a newer glibc than the tag says."""
    found = dict(shared_objects(architecture))

    assert 2 == len(found), found
    for name, elf in found.items():
        assert MACHINES[architecture] == elf["e_machine"], name
        needed = [tag.needed for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")]
        assert [] == [library for library in needed if not SYSTEM_LIBRARIES.fullmatch(library)], name
        versions = elf.get_section_by_name(".gnu.version_r").iter_versions()
        symbols = {entry.name for _, entries in versions for entry in entries}
        newer = [text for text in symbols if tuple(map(int, re.findall(r"\d+", text))) > GLIBC]
        assert [] == newer, name


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_engine_brings_its_cxx_library_and_shows_one_symbol(architecture: str) -> None:
    """Another copy of a C++ library in the process can neither take the place of the engine's nor be disturbed."""
    (engine,) = [elf for name, elf in shared_objects(architecture) if "/_engine." in name]

    symbols = list(dynamic_symbols(engine))

    assert ["PyInit__engine"] == [name for name, is_defined in symbols if is_defined]
    assert [] == [name for name, is_defined in symbols if not is_defined and name.startswith(("_Z", "__cxa_throw"))]
