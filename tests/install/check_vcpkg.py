#!/usr/bin/env python3
"""check_vcpkg.py --source --build --work --cmake --make-program --compiler --halide --vcpkg: the port of runtime/packaging/vcpkg, built by vcpkg's own scripts as vcpkg itself calls them, and a
project of twenty lines that finds what it installs.

--vcpkg is a clone of vcpkg, for its scripts; the program is not needed. What vcpkg would install first, the port's dependencies, are the system's, and the generators are those of --build.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys


def run(*command, fails_with=None, **settings):
    print("$", *command, flush=True)
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **settings)
    if (done.returncode != 0) != (fails_with is not None) or (fails_with or "") not in " ".join(done.stdout.split()):
        print(done.stdout)
        raise SystemExit(f"FAILED  expected {fails_with or 'no error'}, got {done.returncode}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("source", "build", "work", "cmake", "make-program", "halide", "vcpkg"):
        parser.add_argument("--" + name, type=pathlib.Path, required=True)
    parser.add_argument("--compiler", required=True)
    options = parser.parse_args()
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)
    triplet = options.work / "system.cmake"
    triplet.write_text((options.vcpkg / "triplets/x64-linux.cmake").read_text() + f'set(VCPKG_CMAKE_CONFIGURE_OPTIONS "-DATTUNE_HOST_GENERATORS={options.build}/bin" "-DCMAKE_CXX_COMPILER={options.compiler}")\n')
    helpers = ";".join(str(options.vcpkg / "ports" / port / "vcpkg-port-config.cmake") for port in ("vcpkg-cmake", "vcpkg-cmake-config"))
    settings = {"CMD": "BUILD", "PORT": "attune", "VERSION": "0.2.0", "FEATURES": "core", "TARGET_TRIPLET": "system", "TARGET_TRIPLET_FILE": triplet, "_HOST_TRIPLET": "system", "VCPKG_PLATFORM_TOOLSET": "external",
                "VCPKG_ROOT_DIR": options.vcpkg, "DOWNLOADS": options.work / "downloads", "BUILDTREES_DIR": options.work / "trees", "PACKAGES_DIR": options.work / "packages",
                "_VCPKG_INSTALLED_DIR": options.work / "installed", "CURRENT_PORT_DIR": options.source / "runtime/packaging/vcpkg/attune", "VCPKG_PORT_CONFIGS": helpers, "VCPKG_CONCURRENCY": os.cpu_count(),
                "CMAKE_COMMAND": options.cmake, "NINJA": options.make_program, "VCPKG_BASE_VERSION": "2999-12-31", "GIT": shutil.which("git") or "git", "ALLOW_EDITABLE_SOURCES": "ON",
                "_VCPKG_EDITABLE": "OFF", "_VCPKG_DOWNLOAD_TOOL": "BUILT_IN", "Z_VCPKG_CHAINLOAD_TOOLCHAIN_FILE": options.vcpkg / "scripts/toolchains/linux.cmake"}
    build = [options.cmake, *(f"-D{name}={value}" for name, value in settings.items()), "-P", options.vcpkg / "scripts/ports.cmake"]
    environment = {**os.environ, "PATH": os.pathsep.join([str(options.cmake.parent), str(options.make_program.parent), os.environ["PATH"]])}
    run(*build, env={**environment, "HALIDE_ROOT": ""}, cwd=options.work, fails_with="attune: expected HALIDE_ROOT to be the folder of Halide 21")
    run(*build, env={**environment, "HALIDE_ROOT": str(options.halide.parents[2])}, cwd=options.work)
    package = options.work / "packages/attune_system"
    for path in ("share/attune/attuneConfig.cmake", "share/attune/copyright", "share/attune/usage", "include/attune/runtime.hpp", "lib/libattune_common.a"):
        if not (package / path).is_file():
            raise SystemExit(f"FAILED  expected {path} in the package, got none")
    project = options.work / "project"
    shutil.copytree(options.source / "tests/install/small", project)
    run(options.cmake, "-S", project, "-B", project / "build", "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={options.make_program}", f"-DCMAKE_CXX_COMPILER={options.compiler}", f"-DCMAKE_PREFIX_PATH={package}")
    run(options.cmake, "--build", project / "build")
    print(run(project / "build/app"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
