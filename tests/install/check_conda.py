#!/usr/bin/env python3
"""check_conda.py --source [--build --work --cmake --make-program --compiler --halide --level]: the recipe of runtime/packaging/conda.

rattler-build renders it, and it asks for all that attune_dependencies.cmake looks for, by conda-forge's names, and configures what the preset `release` does. With --build it is built and tested,
too: each package of conda-forge is a stand-in, of which some lead to what the system has, and the generators are those of --build.
"""
import argparse
import hashlib
import json
import os
import pathlib
import re
import shutil
import sys

NAMES = {"Boost": "libboost-devel", "CLI11": "cli11", "DLPack": "dlpack", "fmt": "fmt", "Halide": "halide", "nlohmann_json": "nlohmann_json"}  # CMake's, and conda-forge's
NOT_PACKAGED = {"Catch2", "NumPy", "utf8proc"}  # tests and examples need them
VARIANT = "c_stdlib: [sysroot]\nc_stdlib_version: ['2.17']\n"  # as conda-forge has them for Linux
wrong = []


def expect(truth, sentence):
    if not truth:
        wrong.append(sentence)


def rendered(source):
    from rattler_build import Stage0Recipe, VariantConfig
    found, = Stage0Recipe.from_file(source / "runtime/packaging/conda/recipe.yaml").render(VariantConfig.from_yaml(VARIANT))
    return found


def agrees(source, recipe):
    """Requirements, options and files, against CMake's own."""
    cmake = (source / "generators/cmake/attune_dependencies.cmake").read_text()
    oldest = dict(re.findall(r'attune_look_for\((\w+) "[^"]*" ([0-9.]+)', cmake))
    wanted = set(oldest) | set(re.findall(r"list\(APPEND attune_missing (\w+)\)", cmake))
    expect(wanted == NAMES.keys() | NOT_PACKAGED, f"expected a name of conda-forge's for each of {sorted(wanted - NOT_PACKAGED)}, got {sorted(NAMES)}")
    halide = re.search(r"find_package\(Halide (\d+) ", (source / "generators/cmake/attune_find_halide.cmake").read_text())[1]
    host = {f"{package} >={oldest[name]}" if name in oldest else f"{package} {halide}.*" if name == "Halide" else package for name, package in NAMES.items()}
    requirements = recipe["requirements"]
    expect(set(requirements["host"]) == host, f"expected the host requirements {sorted(host)}, got {requirements['host']}")
    run = {each for each in host if each.split()[0] in ("halide", "libboost-devel")}  # attuneConfig.cmake.in
    expect(set(requirements["run"]) == run, f"expected the run requirements {sorted(run)}, got {requirements['run']}")
    version = re.search(r"cmake_minimum_required\(VERSION ([0-9.]+?)\.\.", (source / "CMakeLists.txt").read_text())[1]
    for build in (requirements["build"], recipe["tests"][0]["requirements"]["build"]):
        expect({f"cmake >={version}", "ninja", "gxx_linux-64"} <= set(build), f"expected a compiler, ninja and CMake {version} among {build}")

    presets = {preset["name"]: preset for preset in json.loads((source / "CMakePresets.json").read_text())["configurePresets"]}
    packaged = {**presets[presets["release"]["inherits"]]["cacheVariables"], **presets["release"]["cacheVariables"]}
    packaged = {name: value for name, value in packaged.items() if name.startswith("ATTUNE_")}
    given = dict(re.findall(r"-D(ATTUNE_\w+)=(\S+)", recipe["build"]["script"][0]))
    expect(given == packaged, f"expected the options of the preset `release`, {packaged}, got {given}")
    for file in [*recipe["about"]["license_file"], *recipe["tests"][0]["files"]["source"]]:
        expect((source / file).exists(), f"expected {file}, which the recipe names, got none")


def stand_in(channel, name, version, files):
    """A package of the channel, with these files by their paths in an environment."""
    from rattler_build import assemble_package
    folder = channel.parent / "contents" / name
    for path, text in {f"share/stand_in/{name}": "", **files}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
        (folder / path).chmod(0o755)
    made = pathlib.Path(assemble_package(name, version, "linux-64", "0", channel / "linux-64", files_dir=folder, compression_level=1).path)
    content = made.read_bytes()
    return made.name, {"build": "0", "build_number": 0, "depends": [], "name": name, "version": version, "subdir": "linux-64", "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def channel_of(options):
    """Where each requirement of the recipe is a stand-in. The compiler's sets CMAKE_ARGS, as conda-forge's do, and says there where the system's Halide and this build's generators are."""
    channel = options.work / "channel"
    (channel / "linux-64").mkdir(parents=True)
    arguments = (f"-DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=$PREFIX -DCMAKE_INSTALL_LIBDIR=lib -DHalide_DIR={options.halide} -DATTUNE_HOST_GENERATORS={options.build}/bin "
                 f"-DATTUNE_TARGETS={options.level}")
    started = {"cmake": options.cmake, "ninja": options.make_program}
    packages = dict(stand_in(channel, name, version, {f"bin/{name}": f'#!/bin/sh\nexec "{started[name]}" "$@"\n'} if name in started else {})
                    for name, version in (("cmake", "3.28"), ("ninja", "1.11"), ("sysroot_linux-64", "2.17"), ("cli11", "2.1"), ("dlpack", "0.6"), ("fmt", "9"), ("halide", "21.0.0"),
                                          ("libboost-devel", "1.81"), ("nlohmann_json", "3.9")))
    packages.update([stand_in(channel, "gxx_linux-64", "12", {"etc/conda/activate.d/gxx.sh": f'export CXX="{options.compiler}"\nexport CMAKE_ARGS="{arguments}"\n'})])
    for platform, there in (("linux-64", packages), ("noarch", {})):
        (channel / platform).mkdir(exist_ok=True)
        (channel / platform / "repodata.json").write_text(json.dumps({"info": {"subdir": platform}, "packages": {}, "packages.conda": there, "repodata_version": 1}))
    return channel


def built(options, recipe):
    from rattler_build import Package, ToolConfiguration
    from rattler_build.progress import SimpleProgressCallback
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)
    channel = channel_of(options).as_uri()
    result = recipe.run_build(tool_config=ToolConfiguration(test_strategy="skip"), output_dir=options.work / "packages", channels=[channel], progress_callback=SimpleProgressCallback())
    package = Package.from_file(result.packages[0])
    print(f"{package.filename}: {len(package.files)} files")
    for file in ("include/attune/runtime.hpp", "lib/cmake/attune/attuneConfig.cmake", "lib/libattune_common.a", "lib/libattune_common.so", "share/attune/attune.spdx.json"):
        expect(file in package.files, f"expected {file} in the package, got none")
    for tested in package.run_tests(channel=[(options.work / "packages").as_uri(), channel]):
        print("\n".join(tested.output))
        expect(tested.success, "expected the recipe's test to pass")
    if not wrong:
        shutil.rmtree(options.work)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("source", "build", "work", "cmake", "make-program", "halide"):
        parser.add_argument("--" + name, type=pathlib.Path)
    for name in ("compiler", "level"):
        parser.add_argument("--" + name)
    options = parser.parse_args()
    if options.work:
        os.environ["RATTLER_CACHE_DIR"] = str(options.work / "cache")  # stand-ins are for this build alone
    try:
        recipe = rendered(options.source)
    except ImportError:
        print("skipped: no py-rattler-build here, which renders and builds recipes of conda's packages")
        return 77
    agrees(options.source, recipe.recipe.to_dict())
    if options.build and not wrong:
        built(options, recipe)
    print("\n".join(f"FAILED  {sentence}" for sentence in wrong) or "the recipe agrees with CMake's files")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
