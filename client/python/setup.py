"""Installs the package that CMake makes: pip install --no-index --no-build-isolation client/python

HMANN_BUILD_DIR names a build tree of this project that is used, and brought up to date, instead
of one of the package's own (build/python of the clone).

HMANN_WHEEL=1 (`./dev wheel`) makes a wheel for other machines: with the libraries that they may
lack, for the glibc of this machine or a later one.
"""

import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TREE = pathlib.Path(os.environ.get("HMANN_BUILD_DIR") or SOURCE / "build" / "python").resolve()
WHEEL = os.environ.get("HMANN_WHEEL") == "1"
# What setuptools writes; nothing of it beside the sources.
SCRATCH = TREE / ("python_wheel" if WHEEL else "python_package")
#: The libraries that a wheel may expect of any Linux (PEP 600).
OF_LINUX = r"ld-linux.*|lib(c|m|dl|rt|pthread|resolv|gcc_s|stdc\+\+|z)\.so\..*"


def version():
    text = (SOURCE / "CMakeLists.txt").read_text()
    return re.search(r"project\(hmann VERSION ([0-9.]+)", text).group(1)


def run(*command):
    print("$", *command, flush=True)
    subprocess.run([str(part) for part in command], check=True)


def interpreter():
    """That of an environment is a link to the one whose headers the module is compiled with."""
    return os.path.realpath(sys.executable)


def bundle(package):
    """Puts the libraries that the module needs next to it. They get names of their own, so that
    none is mixed with another version of it in the process.
    """
    module = next(package.glob("_core.*.so"))
    listed = subprocess.run(["ldd", module], check=True, capture_output=True, text=True).stdout
    found = re.findall(r"(\S+) => (/\S+)", listed)
    needed = {name: path for name, path in found if not re.fullmatch(OF_LINUX, name)}
    renames = [word for name in needed for word in ("--replace-needed", name, f"hmann-{name}")]
    copies = [shutil.copy(path, package / f"hmann-{name}") for name, path in needed.items()]
    for library in [module, *copies]:  # patchelf makes one kind of change well
        run("patchelf", "--set-rpath", "$ORIGIN", library)
        run("patchelf", *renames, library)
        if library != module:
            run("patchelf", "--set-soname", library.name, library)


class BuildWithCMake(build_py):
    """CMake makes the package whole; it is copied as it is."""

    def run(self):
        if not (TREE / "CMakeCache.txt").exists():
            run(
                "cmake", "-S", SOURCE, "-B", TREE, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                f"-DPython3_EXECUTABLE={interpreter()}",
            )  # fmt: skip
        run("cmake", "--build", TREE, "--target", "hmann_python_package")
        made = TREE / "python" / "hmann"
        if not made.exists():
            sys.exit(f"{TREE} has no Python package: cmake says which packages it lacks")
        shutil.copytree(
            made,
            pathlib.Path(self.build_lib) / "hmann",
            dirs_exist_ok=True,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        if WHEEL:
            bundle(pathlib.Path(self.build_lib) / "hmann")


class WithModule(Distribution):
    """A wheel for this interpreter, not for all."""

    def has_ext_modules(self):
        return True


if WHEEL:
    shutil.rmtree(SCRATCH, ignore_errors=True)
SCRATCH.mkdir(parents=True, exist_ok=True)
options = {"build": {"build_base": str(SCRATCH)}, "egg_info": {"egg_base": str(SCRATCH)}}
if WHEEL:
    glibc = os.confstr("CS_GNU_LIBC_VERSION").split()[1].replace(".", "_")
    options["bdist_wheel"] = {"plat_name": f"manylinux_{glibc}_{platform.machine()}"}
setup(
    name="hmann",
    version=version(),
    description="Nearest-neighbor search among more vectors than fast memory holds (HM-ANN)",
    python_requires=">=3.9",
    packages=["hmann"],
    install_requires=["numpy"],
    extras_require={"client": ["grpcio", "protobuf"]},
    cmdclass={"build_py": BuildWithCMake},
    distclass=WithModule,
    options=options,
)
