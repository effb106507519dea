"""Installs the package that CMake makes: pip install --no-index --no-build-isolation client/python

HMANN_BUILD_DIR names a build tree of this project that is used, and brought up to date, instead
of one of the package's own (build/python of the clone).
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TREE = pathlib.Path(os.environ.get("HMANN_BUILD_DIR") or SOURCE / "build" / "python").resolve()
SCRATCH = TREE / "python_package"  # what setuptools writes; nothing of it beside the sources


def version():
    text = (SOURCE / "CMakeLists.txt").read_text()
    return re.search(r"project\(hmann VERSION ([0-9.]+)", text).group(1)


def run(*command):
    print("$", *command, flush=True)
    subprocess.run([str(part) for part in command], check=True)


def interpreter():
    """That of an environment is a link to the one whose headers the module is compiled with."""
    return os.path.realpath(sys.executable)


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


class WithModule(Distribution):
    """A wheel for this interpreter, not for all."""

    def has_ext_modules(self):
        return True


SCRATCH.mkdir(parents=True, exist_ok=True)
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
    options={"build": {"build_base": str(SCRATCH)}, "egg_info": {"egg_base": str(SCRATCH)}},
)
