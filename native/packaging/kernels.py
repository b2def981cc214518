# SPDX-License-Identifier: Apache-2.0
"""Compiles the GPU kernels of the device layer to PTX, the text that the engine carries. `make kernels` runs it.

NVRTC compiles them, on any machine and without NVIDIA's headers. The text is committed, so that a build needs no
compiler for GPUs; every driver translates it for its GPU. The first lines of the text hold a digest of the sources: a
test compares it with the sources.
"""

import argparse
import ctypes
import hashlib
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

SOURCES = Path(__file__).resolve().parents[1] / "src"
KERNELS = "device/kernels/pack_scale.cu"
HEADERS = ("base/half.h", "device/kernels/pack_list.h")
OUTPUT = SOURCES / "device" / "kernels" / "pack_scale.ptx.inc"

COMPILER = (11, 7)
OPTIONS = (
    "--gpu-architecture=compute_52",  # the oldest that this compiler does not call deprecated
    "--std=c++17",
    "--device-as-default-execution-space",  # functions of shared headers are functions of the GPU
    # Bits of the CPU's arithmetic: each operation is rounded by itself, subnormal numbers are numbers.
    "--fmad=false",
    "--prec-div=true",
    "--ftz=false",
)
# The language of CUDA 11.4, which is the oldest driver that the engine takes. The compiler writes the number of its own
# version, of which it uses nothing that is newer.
PTX_VERSION = "7.4"

# NVRTC has no standard headers. These are as much of them as the kernels use.
STANDARD_HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "cstdint": """\
#pragma once
using int32_t = int;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long long;
""",
        "bit": """\
#pragma once
namespace std {
template <typename To, typename From>
To bit_cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "a bit cast keeps the size");
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}
}  // namespace std
""",
    }
)


class KernelError(Exception):
    """The kernels could not be compiled; no file was written."""


def compiled_texts(sources: Path = SOURCES) -> dict[str, str]:
    """Return all that the compiler is given, by name: the kernels first, then the headers."""
    texts = {name: (sources / name).read_text(encoding="utf-8") for name in (KERNELS, *HEADERS)}
    return {**texts, **STANDARD_HEADERS}


def digest_of(texts: Mapping[str, str]) -> str:
    """Return the SHA-256 of all inputs of the PTX: texts, options, and versions."""
    parts = [*OPTIONS, str(COMPILER), PTX_VERSION]
    for name, text in texts.items():
        parts += [name, text]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def compile_ptx(library: Path, texts: Mapping[str, str]) -> str:
    """Return the kernels as PTX.

    Args:
        library: NVRTC, of the version `COMPILER`.
        texts: Sources and headers, as `compiled_texts` returns them.

    Raises:
        KernelError: If the library has another version or the kernels do not compile.
    """
    nvrtc = ctypes.CDLL(str(library))
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    if (major.value, minor.value) != COMPILER:
        raise KernelError(f"{library} is NVRTC {major.value}.{minor.value}, not {COMPILER[0]}.{COMPILER[1]}")
    program = ctypes.c_void_p()
    names = [name for name in texts if name != KERNELS]
    nvrtc.nvrtcCreateProgram(
        ctypes.byref(program),
        texts[KERNELS].encode(),
        Path(KERNELS).name.encode(),
        len(names),
        _strings([texts[name] for name in names]),
        _strings(names),
    )
    result = nvrtc.nvrtcCompileProgram(program, len(OPTIONS), _strings(OPTIONS))
    log = _text(nvrtc, "ProgramLog", program)
    if result != 0 or log.strip():  # a warning is an error, too
        raise KernelError(f"{KERNELS} does not compile:\n{log}")
    return re.sub(r"(?m)^\.version .*$", f".version {PTX_VERSION}", _text(nvrtc, "PTX", program), count=1)


def included_text(ptx: str, texts: Mapping[str, str]) -> str:
    """Return the file that the engine includes: a string literal for the head and one for each kernel."""
    pieces = re.split(r"(?m)^(?=\.visible \.entry )", ptx.rstrip("\n") + "\n")
    literals = "\n".join(f'R"ptx({piece})ptx",' for piece in pieces)
    return (
        "// SPDX-License-Identifier: Apache-2.0\n"
        f"// The PTX of {Path(KERNELS).name}, written by `make kernels`; not to be edited.\n"
        f"// sources: {digest_of(texts)}\n"
        f"// text: {hashlib.sha256(literals.encode()).hexdigest()}\n"
        f"{literals}\n"
    )


def is_current(text: str, texts: Mapping[str, str]) -> bool:
    """Return whether the file that the engine includes was written from these sources, and left as it was."""
    lines = text.split("\n", 4)
    literals = lines[-1].removesuffix("\n")
    expected = (f"// sources: {digest_of(texts)}", f"// text: {hashlib.sha256(literals.encode()).hexdigest()}")
    return expected == tuple(lines[2:4])


def _strings(texts: tuple[str, ...] | list[str]) -> ctypes.Array[ctypes.c_char_p]:
    return (ctypes.c_char_p * len(texts))(*[text.encode() for text in texts])


def _text(nvrtc: ctypes.CDLL, what: str, program: ctypes.c_void_p) -> str:
    """Return one of the texts that belong to a program: `PTX`, `ProgramLog`."""
    size = ctypes.c_size_t()
    getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{what}")(program, text)
    return text.value.decode()


def main() -> None:
    """Write the file that the engine includes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("environment", type=Path, help="virtual environment that has the wheel of NVRTC")
    libraries = sorted(parser.parse_args().environment.glob("lib/python*/site-packages/nvidia/*/lib/libnvrtc.so*"))
    if not libraries:
        sys.exit("there is no libnvrtc.so in the environment; `make kernels` installs it")
    texts = compiled_texts()
    ptx = compile_ptx(libraries[0], texts)
    if ptx != compile_ptx(libraries[0], texts):
        sys.exit("NVRTC has compiled the same sources to two texts")
    OUTPUT.write_text(included_text(ptx, texts), encoding="utf-8")


if __name__ == "__main__":
    main()
