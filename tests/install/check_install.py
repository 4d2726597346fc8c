#!/usr/bin/env python3
"""Uses attune as other projects do.

    package        installs into a prefix, moves it, builds a copy of examples/00_skeleton against it with find_package, runs it,
                   and links its kernels into a project that has neither Halide nor attune's generators
    kernels        has a project install its kernels as a library of its own, static and shared, moves that, and links it from C
                   (pkg-config, no CMake) and from C++ (find_package)
    build_tree     the skeleton and the project of twenty lines with find_package against the build folder, nothing installed
    dlpack         DLPack's header, which is another project's: asked for by name, not installed
    warnings       every installed header, templates instantiated, and a registry: g++ does not warn, whatever an application asks it for
    warnings_clang   the same of clang++ and its -Weverything
    common         a project of twenty lines on attune::common, which compiles no kernels
    archives       the .tar.gz and the .deb that cpack makes, unpacked and (as root) installed by dpkg: the same project against each
    subdirectory   builds the skeleton's variant in a project that adds attune's sources with add_subdirectory, generators included
    subdirectory_ready   the same with the generators of this build
    reproducible   the exporter's project in two folders: kernels and libraries are the same bytes
    reproducible_sources   attune's sources in two folders, with the skeleton's project: all that is built is the same bytes
    cross          builds attune::common for aarch64 with the generators of this build and runs it in an emulator
    rebuilds       which kernels are compiled again after edits: of a graph, of what does not say what a kernel is, and of what does
    mpi            a project over MPI, by find_package and by pkg-config, and what is said to one that asks for MPI where there is none
    sizes          the runtime and a library of kernels, stripped

Everything happens in --work, which is emptied first; nothing is downloaded. Nothing of attune's source and build folders may be in a
prefix, in a command of a project that uses it, or among the files that its compiler read. Where the system lets us (unshare), these
projects are configured, built and run with both folders out of sight.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zlib

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support")]
from compile_commands import rows_of  # noqa: E402

ALLOWED = re.compile(r"(ld-linux|libc\.|libm\.|libstdc\+\+\.|libgcc_s\.|libpthread\.|libdl\.|libmy_kernels\.|libattune_common\.)")


# Hides $1 and $2, but for the folders up to `--`, and runs the rest.
HIDE = """
set -e
source=$1 build=$2 keep=$(mktemp -d); shift 2; kept=()
while [ "$1" != -- ]; do
    if [ -d "$1" ]; then mkdir "$keep/${#kept[@]}"; mount --bind "$1" "$keep/${#kept[@]}"; kept+=("$1"); fi
    shift
done
shift
for folder in "$source" "$build"; do [ ! -d "$folder" ] || mount -t tmpfs tmpfs "$folder"; done
for i in "${!kept[@]}"; do mkdir -p "${kept[$i]}"; mount --bind "$keep/$i" "${kept[$i]}"; done
cd /
[ ! -e "$source/CMakeLists.txt" ] || exit 1
exec "$@"
"""


def run(*command, **settings):
    print("$", *command, flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **settings)
    if done.returncode != 0:
        print(done.stdout)
        raise SystemExit(f"FAILED  {command[0]} ended with {done.returncode}")
    return done.stdout


def expect(truth, sentence):
    if not truth:
        raise SystemExit("FAILED  " + sentence)


class User:
    """Projects built as a user would, with the compiler and the Halide of the build under test."""

    def __init__(self, options):
        self.options = options
        self.here = os.path.join(options.source, "tests", "install")
        self.hide = self.way_to_hide()
        self.common = ["-G", options.generator, f"-DCMAKE_MAKE_PROGRAM={options.make_program}", f"-DCMAKE_CXX_COMPILER={options.compiler}"]

    def way_to_hide(self):
        """The command before one that is not to see attune's folders, or none."""
        if not shutil.which("unshare"):
            return []
        options = self.options
        kept = [options.work, os.path.join(options.source, "build", "venv"), options.halide]
        for user in ([], ["--user", "--map-root-user"]):
            hide = ["unshare", *user, "--mount", "bash", "-c", HIDE, "hide", options.source, options.build, *kept, "--"]
            if subprocess.run([*hide, "true"], capture_output=True).returncode == 0:
                return hide
        return []

    def work(self, *parts):
        return os.path.join(self.options.work, *parts)

    def install(self, *components):
        """Installs attune into a prefix and moves that; returns where it is then."""
        first, moved = self.work("first"), self.work("moved", "elsewhere")
        for component in components or [None]:
            run(self.options.cmake, "--install", self.options.build, "--prefix", first, *(["--component", component] if component else []))
        os.makedirs(os.path.dirname(moved))
        os.rename(first, moved)
        self.no_trace(moved, first)
        return moved

    def no_trace(self, prefix, *others):
        for where, _, names in os.walk(prefix):
            for name in names:
                if name.endswith((".cmake", ".in", ".hpp", ".h", ".pc")):
                    with open(os.path.join(where, name), encoding="utf-8") as file:
                        text = file.read()
                    for path in (*others, self.options.source, self.options.build):
                        expect(path not in text, f"{os.path.join(where, name)} mentions {path}")

    def copied(self, *parts):
        """A folder of the sources, copied as a user would."""
        to = self.work("projects", parts[-1])
        shutil.copytree(os.path.join(self.options.source, *parts), to)
        return to

    def build(self, source, build, *settings, prefixes=(), of_attune=()):
        """`of_attune`: what of attune's folders the project is told about."""
        paths = ";".join((*prefixes, self.options.prefix_path))
        hide = [] if of_attune else self.hide
        started = time.monotonic()
        run(*hide, self.options.cmake, "-S", source, "-B", build, *self.common, f"-DCMAKE_PREFIX_PATH={paths}", *settings)
        run(*hide, self.options.cmake, "--build", build)
        print(f"configured and built in {time.monotonic() - started:.1f} s")
        if self.options.generator == "Ninja" and self.options.source not in of_attune:
            used = run(self.options.make_program, "-C", build, "-t", "deps") + run(self.options.make_program, "-C", build, "-t", "commands")
            used = used.replace(self.options.work, "").replace(self.options.halide, "")
            used = used.replace(os.path.join(self.options.source, "build", "venv"), "")  # Halide and CMake where they were installed for this clone
            for path in (self.options.source, self.options.build):
                expect(path not in used, f"{build} reads files of {path}")

    def run_app(self, app, *arguments, **settings):
        started = time.monotonic()
        print(run(*self.hide, app, *arguments, **settings), f"ran for {time.monotonic() - started:.1f} s")
        self.needs_little(app)

    def needs_little(self, file):
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", file))
        others = [library for library in needed if not ALLOWED.match(library)]
        expect(needed and not others, f"{file} needs {others or 'nothing'}")


def package(user):
    prefix = user.install()
    skeleton, build = user.copied("examples", "00_skeleton"), user.work("skeleton_build")
    halide = re.sub(r"/lib[^/]*/([^/]+-[^/]+/)?cmake/.*", "", user.options.halide)  # its folder, as messages and pages ask for it: Python's package has a lib64 there
    user.build(skeleton, build, f"-DHalide_ROOT={halide}", prefixes=[prefix])
    user.run_app(os.path.join(build, "app"))
    with open(os.path.join(build, "my_kernels_kernels", "my_kernels_registry.cpp"), encoding="utf-8") as registry:
        text = registry.read()
    expect("shape_class::prefill" in text and "shape_class::decode" in text, "expected kernels of the skeleton for prefill and for decode, which nothing says otherwise")
    print(run(os.path.join(build, "bin", "my_kernels_generator"), "--help"))
    tunes_into_its_own(user, prefix, skeleton, build)

    bill_of_materials(prefix)

    # Its kernels, in a project that can find no Halide.
    build_ready = user.work("ready_made_build")
    user.build(user.copied("tests", "install", "ready_made"), build_ready, "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_DISABLE_FIND_PACKAGE_Halide=TRUE",
               f"-DSKELETON={skeleton}", f"-DMY_KERNELS={build}/libmy_kernels.a", prefixes=[prefix])
    user.run_app(os.path.join(build_ready, "app"))


def bill_of_materials(prefix):
    """The SPDX document of an installation: what it is made of, each by a version, and how."""
    with open(os.path.join(prefix, "share", "attune", "attune.spdx.json"), encoding="utf-8") as file:
        said = json.load(file)
    versions = {package["SPDXID"]: package["versionInfo"] for package in said["packages"]}
    expect(said["spdxVersion"] == "SPDX-2.3" and all(re.match(r"[0-9]+[.][0-9]", version) for version in versions.values()), f"expected SPDX 2.3 and versions, got {versions}")
    expect({f"SPDXRef-{name}" for name in ("attune", "DLPack", "Halide", "Boost", "fmt", "nlohmann-json", "CLI11", "CMake")} <= set(versions), f"expected what attune is made of, got {list(versions)}")
    related = {relation[end] for relation in said["relationships"] for end in ("spdxElementId", "relatedSpdxElement")}
    expect(related == {"SPDXRef-DOCUMENT", *versions}, f"expected a relation of each package, got {related}")


def tunes_into_its_own(user, prefix, project, build):
    """my_kernels_tune, of one candidate: what it finds is kept in the project's folder, which it says, and nothing in the prefix."""
    def files():
        return {os.path.join(where, name): os.stat(os.path.join(where, name)).st_mtime_ns for where, _, names in os.walk(prefix) for name in names}

    if user.options.generator != "Ninja":
        return print("skipped: what <target>_tune runs was not tried, for want of Ninja")
    command = [line for line in run(user.options.make_program, "-C", build, "-t", "commands", "my_kernels_tune").splitlines() if " tune --schedules " in line][-1]
    before, folder = files(), os.path.join(project, "schedules")
    search, then = command.split(" && ", 1)[1].split(" && ")
    said = run("bash", "-c", f"cd '{build}' && {search} --budget 1 --buckets short --targets x86-64-v2 aarch64 && {then}")
    print(said)
    kept = [os.path.join(folder, name) for name in os.listdir(folder)]
    expect(len(kept) == 1 and f"schedules kept in {kept[0]}" in said and f"SCHEDULES {folder}" in said, f"expected schedules in {folder} and a line that says so, got {kept}")
    expect(files() == before, "expected tune to leave the installed files alone")


def kernels(user):
    attune = user.install()
    skeleton, build = user.copied("examples", "00_skeleton"), user.work("exporter_build")
    user.build(user.copied("tests", "install", "exporter"), build, f"-DHalide_DIR={user.options.halide}", f"-DSKELETON={skeleton}", prefixes=[attune])
    first, moved = user.work("kernels_first"), user.work("moved", "kernels")
    run(user.options.cmake, "--install", build, "--prefix", first)
    os.rename(first, moved)
    user.no_trace(moved, first, attune, build)
    # With everything else out of reach.
    os.rename(attune, attune + "_away")
    os.rename(build, build + "_away")
    shutil.rmtree(skeleton)

    project = user.copied("tests", "install", "of_kernels")
    library = next(os.path.join(where, "libmy_kernels.so") for where, _, names in os.walk(moved) if "libmy_kernels.so" in names)
    user.needs_little(library)
    shown = re.findall(r" [TWBDRV] (\S+)", run("nm", "-D", "--defined-only", library))
    strange = [symbol for symbol in shown if not re.match(r"attune_|my_attention_variant$|_ZN6attune10kernels_ofI", symbol)]
    expect(shown and not strange, f"the shared library shows {strange or 'nothing'}")

    lib = os.path.dirname(library)
    from_c(user, "shared_app", project, lib, "my_kernels", f"-Wl,-rpath,{lib}")

    build = user.work("of_shared_build")
    user.build(project, build, "-DLIBRARY=my_kernels::my_kernels_shared", prefixes=[moved])
    user.run_app(os.path.join(build, "app"))

    os.rename(attune + "_away", attune)
    build = user.work("of_static_build")
    user.build(project, build, "-DLIBRARY=my_kernels::my_kernels", "-DCMAKE_DISABLE_FIND_PACKAGE_Halide=TRUE", prefixes=[moved, attune])
    user.run_app(os.path.join(build, "app"))
    # The static library, and attune's runtime by its own file.
    runtime = next(where for where, _, names in os.walk(attune) if "attune-runtime.pc" in names)
    from_c(user, "static_app", project, os.path.dirname(runtime), "attune-runtime", before=[f"-I{os.path.dirname(lib)}/include", os.path.join(lib, "libmy_kernels.a")])


def from_c(user, name, project, lib, package, *options, before=()):
    """The project in C by a compiler's call, with the flags of a pkg-config file in `lib`."""
    if not shutil.which("pkg-config"):
        return print(f"skipped: no pkg-config here, so {package}.pc was not tried")
    flags = shlex.split(run("pkg-config", "--cflags", "--libs", package, env={**os.environ, "PKG_CONFIG_PATH": os.path.join(lib, "pkgconfig")}))
    app = user.work(name)
    run(*user.hide, user.options.c_compiler, "-std=c99", "-Wall", "-Wextra", "-pedantic-errors", os.path.join(project, "main.c"), *before, "-o", app, *flags, "-lm", *options)
    user.run_app(app)


def build_tree(user):
    build, seen = user.work("skeleton_build"), [user.options.source]
    user.build(user.copied("examples", "00_skeleton"), build, f"-DHalide_DIR={user.options.halide}", prefixes=[user.options.build], of_attune=seen)
    user.run_app(os.path.join(build, "app"))
    small_project(user, user.options.build, "small_build", of_attune=seen)

    unbuilt = user.work("unbuilt")
    run(user.options.cmake, "-S", user.options.source, "-B", unbuilt, *user.common, f"-DHalide_DIR={user.options.halide}", f"-DCMAKE_PREFIX_PATH={user.options.prefix_path}",
        "-DATTUNE_BUILD_TESTS=OFF", "-DATTUNE_BUILD_EXAMPLES=OFF")
    refused = subprocess.run([user.options.cmake, "-S", user.work("projects", "small"), "-B", user.work("refused"), *user.common, f"-DCMAKE_PREFIX_PATH={unbuilt};{user.options.prefix_path}"],
                             capture_output=True, text=True)
    said = " ".join(refused.stderr.split())
    expect(refused.returncode != 0 and f"configured there and not built; try `cmake --build {unbuilt}" in said, f"expected a build folder that was not built to be refused, got {said}")


# Asked for by applications that want to hear much. Of clang's all those are left out that go by taste, by older standards, or by what attune::run is made of: functions that
# the registry defines.
MANY_WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wshadow", "-Wconversion", "-Wsign-conversion", "-Wold-style-cast", "-Wcast-qual", "-Woverloaded-virtual", "-Wnon-virtual-dtor"]
TASTE = ["c++98-compat", "c++98-compat-pedantic", "padded", "unsafe-buffer-usage", "ctad-maybe-unsupported", "switch-default", "switch-enum", "comma", "float-equal", "undefined-func-template",
         "unknown-warning-option"]


def told_of_mpi(user):
    """What a compiler is told by who links attune::mpi, as the build tells its own; nothing where there is no MPI."""
    with open(os.path.join(user.options.build, "compile_commands.json"), encoding="utf-8") as file:
        commands = [shlex.split(row["command"]) for row in json.load(file) if row["file"].endswith("runtime/mpi/src/transport/mpi_transport.cpp")]
    words = commands[0] if commands else []
    folders = [word for before, word in zip(words, words[1:]) if before == "-isystem" and os.path.exists(os.path.join(word, "mpi.h"))]
    return [word for word in words if word.startswith("-D")] + [word for folder in folders for word in ("-isystem", folder)]


def quiet(user, *compilers):
    """Every installed header as these compilers see it, in C++; returns the prefix and what they were told."""
    of_mpi = told_of_mpi(user)
    prefix = user.install("dsl", "runtime", "generators", "common", *(["mpi"] if of_mpi else []))
    here, work = os.path.join(user.here, "warnings"), user.work("warnings")
    os.makedirs(work)
    headers = sorted(os.path.relpath(os.path.join(where, name), os.path.join(prefix, "include")) for where, _, names in os.walk(os.path.join(prefix, "include", "attune")) for name in names
                     if name.endswith((".h", ".hpp")))
    expect(len(headers) > 50, f"expected attune's headers, got {headers}")
    expect(not of_mpi or {"attune/mpi.h", "attune/mpi.hpp", "attune/mpi/exchange.hpp"} <= set(headers), f"expected the headers of calls over ranks, got {headers}")
    with open(os.path.join(work, "every_header.hpp"), "w", encoding="utf-8") as file:
        file.writelines(f"#include <{name}>\n" for name in [*headers, "attune_common.h"])
    tests = os.path.join(user.options.source, "tests")
    common = ["-fsyntax-only", f"-I{prefix}/include", f"-I{work}", *of_mpi]
    users = ["-isystem", os.path.join(tests, "kernels"), "-isystem", os.path.join(tests, "layers")]
    registry = [f"-I{prefix}/include/attune", os.path.join(user.options.build, "attune_common_kernels", "attune_common_registry.cpp")]
    sources = [[*users, os.path.join(here, "calls.cpp")], registry]
    for compiler in compilers:
        for source in sources:
            print(run(*compiler, "-std=c++20", *common, *source))
    return prefix, common


def warnings(user):
    # Sanitizers forbid g++ some constant expressions: users' builds have them, and ours only in the long tests.
    prefix, common = quiet(user, [user.options.compiler, *MANY_WARNINGS], [user.options.compiler, "-Werror", "-fsanitize=address,undefined"])
    of_c = [flag for flag in MANY_WARNINGS if flag not in ("-Wold-style-cast", "-Woverloaded-virtual", "-Wnon-virtual-dtor")]
    for header in ("attune_common.h", os.path.join("attune", "mpi.h")):
        if os.path.exists(os.path.join(prefix, "include", header)):
            print(run(user.options.c_compiler, "-std=c99", *of_c, *common, "-x", "c", os.path.join(prefix, "include", header)))


def warnings_clang(user):
    quiet(user, [user.options.clang, "-Weverything", *[f"-Wno-{what}" for what in TASTE], "-Werror"])


def dlpack(user):
    """DLPack's header is another project's: asked for by name where it is needed, and only there."""
    prefix, folder = user.install("dsl", "runtime"), user.options.dlpack
    expect(not any(name.startswith("dlpack") for where, _, names in os.walk(prefix) for name in names if not where.endswith("include/attune")), "expected DLPack's header not to be installed")
    refused = subprocess.run([user.options.cmake, "-S", user.options.source, "-B", user.work("refused"), *user.common, f"-DHalide_DIR={user.options.halide}",
                              f"-DCMAKE_PREFIX_PATH={user.options.prefix_path}", f"-DCMAKE_IGNORE_PATH={folder}", "-DATTUNE_BUILD_TESTS=OFF", "-DATTUNE_BUILD_EXAMPLES=OFF"],
                             capture_output=True, text=True)
    with open(os.path.join(user.work("refused"), "missing"), encoding="utf-8") as missing:
        expect(refused.returncode != 0 and "DLPack's header (libdlpack-dev" in refused.stderr and "DLPack" in missing.read().split(), f"expected DLPack to be asked for by name, got {refused.stderr}")

    def said_of(header, *flags):
        return subprocess.run([user.options.compiler, "-std=c++20", "-fsyntax-only", f"-I{prefix}/include", *flags, "-include", f"attune/{header}", "-x", "c++", os.devnull],
                              capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stderr

    expect(said_of("dlpack.hpp", "-idirafter", folder) == "" and said_of("runtime.hpp", "-DDLPACK_MAJOR_VERSION=2") == "", "expected both headers to compile")
    for flags, words in ((["-nostdinc"], "expected DLPack's header dlpack/dlpack.h, got none; try Debian's libdlpack-dev"),
                         (["-DDLPACK_DLPACK_H_", "-DDLPACK_MAJOR_VERSION=2"], "expected DLPack's header of version 1 or earlier, got a later one")):
        expect(words in said_of("dlpack.h", *flags), f"expected {words}, got {said_of('dlpack.h', *flags)}")


def small_project(user, prefix, name, of_attune=()):
    project = user.work("projects", "small")
    if not os.path.exists(project):
        user.copied("tests", "install", "small")
    lines = sum(len([line for line in open(os.path.join(project, file), encoding="utf-8") if line.strip()]) for file in os.listdir(project))
    expect(lines <= 20, f"the project has {lines} lines")
    build = user.work(name)
    user.build(project, build, "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_DISABLE_FIND_PACKAGE_Halide=TRUE", prefixes=[prefix], of_attune=of_attune)
    user.run_app(os.path.join(build, "app"))


def installed(user, file):
    """Into a root of its own, by dpkg; what it says of it, and that nothing stays when it goes."""
    root = user.work("root")
    for folder in ("info", "updates", "triggers"):
        os.makedirs(os.path.join(root, "var", "lib", "dpkg", folder))
    for name in ("status", "available"):
        open(os.path.join(root, "var", "lib", "dpkg", name), "w", encoding="utf-8").close()
    dpkg = ["dpkg", f"--root={root}", "--force-depends"]
    run(*dpkg, "--install", file)
    expect("install ok installed" in run(*dpkg, "--status", "attune"), "expected dpkg to call attune installed")
    small_project(user, os.path.join(root, "usr"), "small_dpkg")
    files = [line for line in run(*dpkg, "--listfiles", "attune").split() if os.path.isfile(root + line)]
    expect(len(files) > 50 and any(line.endswith("attune/c.h") for line in files), f"expected the headers among the files, got {files}")
    run(*dpkg, "--purge", "attune")
    expect(not any(os.path.exists(root + line) for line in files), "expected no file to stay")


def common(user):
    prefix = user.install("dsl", "runtime", "common")
    small_project(user, prefix, "small_build")
    library = next(os.path.join(where, "libattune_common.so") for where, _, names in os.walk(prefix) if "libattune_common.so" in names)
    soname = re.search(r"\(SONAME\).*\[(.*)\]", run("readelf", "-d", library))[1]
    with open(os.path.join(prefix, "include", "attune", "c.h"), encoding="utf-8") as file:
        version = re.search(r"ATTUNE_C_VERSION (\d+)", file.read())[1]
    expect(soname == f"libattune_common.so.{version}" and os.path.exists(os.path.join(os.path.dirname(library), soname)), f"expected the version of attune/c.h in the SONAME, got {soname}")
    stripped = user.work("stripped")
    run("strip", "-o", stripped, library)
    expect(os.path.getsize(stripped) < 3e6, f"expected less than 3 MB, stripped, got {os.path.getsize(stripped)} bytes")


def archives(user):
    folder = user.work("archives")
    if not shutil.which("dpkg-deb"):
        print("skipped: no dpkg-deb here, so no .deb was made")
    made = run(user.options.cpack, "--config", os.path.join(user.options.build, "CPackConfig.cmake"), "-B", folder, "-G",
               "TGZ;DEB" if shutil.which("dpkg-deb") else "TGZ")
    print(made)
    names = [name for name in os.listdir(folder) if name.endswith((".tar.gz", ".deb"))]
    for name in names:
        file, prefix = os.path.join(folder, name), user.work("unpacked" + os.path.splitext(name)[1])
        if name.endswith(".deb"):
            print(run("dpkg-deb", "--info", file))
            run("dpkg-deb", "--extract", file, prefix)
            prefix = os.path.join(prefix, "usr")
            if os.geteuid() == 0:
                installed(user, file)
        else:
            with tarfile.open(file) as archive:
                archive.extractall(prefix)
            prefix = os.path.join(prefix, os.listdir(prefix)[0])
        user.no_trace(prefix)
        print(f"{name}: {os.path.getsize(file)} bytes")
        small_project(user, prefix, "small" + os.path.splitext(name)[1])
    expect(len(names) == (2 if shutil.which("dpkg-deb") else 1), f"expected the archives, got {names}")


def subdirectory(user, *settings):
    source, build = user.options.source, user.work("build")
    # Without optimisation: this is about CMake, not about speed.
    user.build(user.copied("tests", "install", "as_subdirectory"), build, f"-DHalide_DIR={user.options.halide}", "-DCMAKE_BUILD_TYPE=None",
               "-DCMAKE_DISABLE_FIND_PACKAGE_Catch2=TRUE", f"-DATTUNE_SOURCE={source}", f"-DSKELETON={source}/examples/00_skeleton", *settings, of_attune=[source])
    user.run_app(os.path.join(build, "app"))


def subdirectory_ready(user):
    subdirectory(user, f"-DATTUNE_HOST_GENERATORS={user.options.build}/bin")


def bytes_of(build):
    """What was built in a folder, by its name there; what CMake names by where sources lie is left out."""
    made = {}
    for where, _, names in os.walk(build):
        for name in names:
            if name.endswith((".a", ".so", ".o", ".h", "_registry.cpp")) and "app.dir" not in where or name == "app":
                with open(os.path.join(where, name), "rb") as file:
                    made[os.path.relpath(os.path.join(where, name), build)] = file.read()
    return made


def expect_same(builds, *names):
    first, second = map(bytes_of, builds)
    expect(first.keys() == second.keys() and set(names) <= first.keys(), f"expected {names} in both folders, got {sorted(first.keys() ^ second.keys())}")
    others = [name for name in first if first[name] != second[name]]
    expect(not others, f"expected the same bytes of two folders, got others in {others}")
    print(f"{len(first)} files, {sum(map(len, first.values()))} bytes: the same")


def reproducible(user):
    """Kernels and libraries of a project are the same bytes, whatever the folders; no cache takes part. No library of attune's knows where its sources lie."""
    os.environ.pop("ATTUNE_KERNEL_CACHE", None)
    prefix, builds = user.install("dsl", "runtime", "generators"), []
    for place in ("first", os.path.join("another", "folder", "second")):
        project, skeleton = user.work(place, "project"), user.work(place, "skeleton")
        shutil.copytree(os.path.join(user.here, "exporter"), project)
        shutil.copytree(os.path.join(user.options.source, "examples", "00_skeleton"), skeleton)
        builds.append(user.work(place, "build"))
        user.build(project, builds[-1], f"-DHalide_DIR={user.options.halide}", "-DCMAKE_CXX_COMPILER_LAUNCHER=", f"-DSKELETON={skeleton}", f"-DATTUNE_HOST_GENERATORS={user.options.build}/bin",
                   prefixes=[prefix], of_attune=[user.options.build, user.options.source])
    expect_same(builds, "libmy_kernels.a", "libmy_kernels.so", "my_kernels_kernels/my_kernels_registry.cpp", "my_kernels_kernels/include/my_kernels.h")
    libraries = {name: content for name, content in bytes_of(prefix).items() if name.endswith(".a")}
    expect(len(libraries) > 10, f"expected attune's libraries, got {list(libraries)}")
    for name, content in libraries.items():
        expect(user.options.source.encode() not in content, f"{name} mentions {user.options.source}")


def reproducible_sources(user):
    """The same of attune's own sources, compiled in two folders without a cache: minutes. Of the generators, of which this build has one set for both, every source file as
    the preprocessor leaves it, and objects of some."""
    os.environ.pop("ATTUNE_KERNEL_CACHE", None)
    builds, objects = [], []
    common = "ON" if os.path.exists(os.path.join(user.options.build, "bin", "attune_common_generator")) else "OFF"
    for place in ("first", os.path.join("another", "folder", "second")):
        source = user.work(place, "attune")
        for part in ("CMakeLists.txt", "LICENSE", "dsl", "runtime", "generators", os.path.join("examples", "00_skeleton"), os.path.join("tests", "install", "as_subdirectory")):
            whole = os.path.join(user.options.source, part)
            os.makedirs(os.path.dirname(os.path.join(source, part)), exist_ok=True)
            (shutil.copytree if os.path.isdir(whole) else shutil.copyfile)(whole, os.path.join(source, part))
        objects.append(of_generators(user, source))
        builds.append(user.work(place, "build"))
        user.build(os.path.join(source, "tests", "install", "as_subdirectory"), builds[-1], f"-DHalide_DIR={user.options.halide}", "-DCMAKE_BUILD_TYPE=None", "-DCMAKE_CXX_COMPILER_LAUNCHER=",
                   f"-DATTUNE_SOURCE={source}", f"-DSKELETON={source}/examples/00_skeleton", f"-DATTUNE_HOST_GENERATORS={user.options.build}/bin", "-DALL_LIBRARIES=ON", f"-DATTUNE_BUILD_COMMON={common}",
                   of_attune=[user.options.source])
    expect(objects[0] == objects[1], f"expected the generators' sources to come to the same in both folders, got others in {[name for name in objects[0] if objects[0][name] != objects[1][name]]}")
    kernels = [name for name in bytes_of(builds[0]) if re.search(r"my_kernels_kernels/.*[.]o$", name)]
    expect(len(kernels) > 1, f"expected objects of kernels, got {kernels}")
    here = ["runtime/mpi/libattune_ranks.a", "runtime/mpi/libattune_mpi.a", "libattune_common.a", "libattune_common.so"]
    libraries = ["attune/" + name for name in here if os.path.exists(os.path.join(user.options.build, name))]  # without MPI there is none over it
    expect_same(builds, "attune/runtime/libattune_runtime.a", "libmy_kernels.a", "app", *libraries, *kernels)


# Files of which objects are compared, too: one in ten, by the checksum of the name, and those that say more than a compiler is told by what the preprocessor leaves.
SAYS_WHERE = re.compile(r"__\w+__|__builtin_|\bassert\b|source_location|^#define", re.MULTILINE)


def of_generators(user, source):
    """Of every source file of the generators at `source`, compiled as this build compiles its own without a cache: a digest of what the preprocessor leaves of it, and of the
    object where `is_compiled` says so. Of a folder a compiler is told nothing but that text, so that all objects are the same where it is: compiling all takes minutes."""
    root, own = user.options.source, re.compile(rf"{re.escape(user.options.source)}/(=|(dsl|runtime|generators)/)")
    rows = {os.path.relpath(row["file"], root): row for row in rows_of(user.options.build) if row["file"].startswith(os.path.join(root, "generators", "src", ""))}
    there = {os.path.relpath(os.path.join(where, name), root) for where, _, names in os.walk(os.path.join(root, "generators", "src")) for name in names if name.endswith(".cpp")}
    expect(there == rows.keys(), f"expected commands for all sources of the generators, got {sorted(there ^ rows.keys())}")

    def is_compiled(name):
        with open(os.path.join(root, name), encoding="utf-8") as text:
            return zlib.crc32(name.encode()) % 10 == 0 or bool(SAYS_WHERE.search(text.read()))

    def digests(name):
        row, to = rows[name], os.path.join(source, name.replace("/", "_") + ".o")
        words = [own.sub(rf"{source}/\1", word) for word in shlex.split(row["command"])]
        if words[0].endswith("ccache"):
            del words[0]
        at = words.index("-o")
        ways = [["-E", "-P"], ["-o", to]] if is_compiled(name) else [["-E", "-P"]]
        for way in ways:
            done = subprocess.run([*words[:at], *way, *words[at + 2:]], cwd=row["directory"], capture_output=True)
            expect(done.returncode == 0, f"{name} does not compile at {source}: {done.stderr.decode()}")
            content = done.stdout
            if way[0] == "-o":
                with open(to, "rb") as file:
                    content = file.read()
                os.remove(to)
            yield f"{name} {way[0]}", hashlib.sha256(content).hexdigest()

    with concurrent.futures.ThreadPoolExecutor(int(os.environ["CMAKE_BUILD_PARALLEL_LEVEL"])) as pool:
        made = dict(one for of_file in pool.map(lambda name: list(digests(name)), sorted(rows)) for one in of_file)
    objects = [name for name in made if name.endswith("-o")]
    expect(len(objects) >= len(rows) / 20, f"expected objects of one file in twenty at least, got {objects}")
    print(f"{len(rows)} source files of the generators, objects of {len(objects)}")
    return made


def cross(user):
    build, source = user.work("build"), user.options.source
    user.common[-1] = f"-DCMAKE_CXX_COMPILER={user.options.cross_prefix}g++"
    user.build(source, build, "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64", f"-DHalide_DIR={user.options.halide}",
               f"-DBoost_DIR={user.options.boost}", f"-DATTUNE_DLPACK_INCLUDE={user.options.dlpack}", f"-DATTUNE_HOST_GENERATORS={user.options.build}/bin", "-DATTUNE_BUILD_TESTS=OFF", "-DATTUNE_BUILD_EXAMPLES=OFF",
               of_attune=[source])
    library, app = os.path.join(build, "libattune_common.so"), user.work("app")
    expect("AArch64" in run("readelf", "-h", library), "expected a library for AArch64")
    user.needs_little(library)
    run(user.options.cross_prefix + "gcc", "-std=c99", "-O1", f"-I{build}/attune_common_kernels/include", f"-I{source}/runtime/include", "-idirafter", user.options.dlpack,
        os.path.join(source, "tests", "c", "c_api.c"), "-o", app, library, "-lm")
    # A limit for this machine's levels is none for the emulated one's.
    environment = {name: value for name, value in os.environ.items() if name != "ATTUNE_MAX_LEVEL"}
    print(run(*shlex.split(user.options.emulator), app, env={**environment, "LD_LIBRARY_PATH": build}))
    # What was built for another machine installs, too, without generators.
    prefix = user.work("prefix")
    run(user.options.cmake, "--install", build, "--prefix", prefix)
    expect(not os.path.exists(os.path.join(prefix, "include", "attune", "generators")), "generators were installed for another machine")


def rebuilds(user):
    """A project of three graphs, whose kernels are counted after each edit. attune's own edits are made in the installed libraries: a source is compiled with a
    function more, as its build compiles it, and takes its place."""
    os.environ.pop("ATTUNE_KERNEL_CACHE", None)
    prefix, project, build = user.install("dsl", "runtime", "generators"), user.copied("tests", "install", "rebuilds"), user.work("rebuilds_build")
    user.build(project, build, f"-DHalide_DIR={user.options.halide}", f"-DLEVEL={user.options.level}", prefixes=[prefix])
    header = os.path.join(project, "three.hpp")
    commands = {os.path.relpath(row["file"], user.options.source): row for row in rows_of(user.options.build)}

    def compiled():
        said = run(user.options.cmake, "--build", build, "--verbose")
        return re.findall(r"three::(\w+) d8x8 lowered", said)

    def killed_as_it_compiles():
        """A build, killed with all that it runs as soon as an object is begun."""
        def begun():
            return [name for _, _, names in os.walk(build) for name in names if re.search(r"[.]o[.][0-9a-f]{16}$", name)]

        building = subprocess.Popen([user.options.cmake, "--build", build], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        while building.poll() is None and not begun():
            time.sleep(0.001)
        for process in (int(name) for name in os.listdir("/proc") if name.isdigit()):
            try:
                if os.getsid(process) == building.pid:  # ninja's commands have process groups of their own
                    os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass  # ended by itself
        expect(building.wait() == -signal.SIGKILL and begun(), f"expected a build that is killed as it compiles a kernel, got {begun()}")

    def edit(before, after):
        with open(header, encoding="utf-8") as file:
            text = file.read()
        expect(before in text, f"expected {before} in {header}")
        with open(header, "w", encoding="utf-8") as file:
            file.write(text.replace(before, after))

    def edited(source):
        """The room's library with a source that says something more."""
        row, room = commands[source], source.split("/")[2]
        changed = user.work(os.path.basename(source))
        with open(os.path.join(user.options.source, source), encoding="utf-8") as file:
            text = file.read()
        with open(changed, "w", encoding="utf-8") as file:
            file.write(text + f'\nextern "C" int attune_edited_{os.path.basename(source).removesuffix(".cpp")}() {{ return 1; }}\n')
        member = os.path.basename(row.get("unity", source))
        if "unity" in row:  # the library has one object of several files
            with open(row["unity"], encoding="utf-8") as file:
                text = file.read()
            together = user.work(member)
            with open(together, "w", encoding="utf-8") as file:
                file.write(text.replace(f'"{row["file"]}"', f'"{changed}"'))
            changed = together
        words = [changed if word == row["file"] else word for word in shlex.split(row["command"])]
        made = user.work(member + ".o")
        words[words.index("-o") + 1] = made
        run(*words, cwd=row["directory"])
        library = next(os.path.join(where, f"libattune_generators_{room}.a") for where, _, names in os.walk(prefix) if f"libattune_generators_{room}.a" in names)
        run("ar", "r", library, made)

    expect(compiled() == [], "expected nothing to do after a build")
    edit("namespace three {", "// a comment\nnamespace three {")
    expect(compiled() == [], "expected a comment in the header to compile no kernel")
    edit("q * t(k) * rsqrt(depth)", "q * t(k) * rsqrt(depth) * 2.0")
    expect(compiled() == ["second"], "expected an edit of one graph of three to compile that one")
    edit("q * t(k) * rsqrt(depth) * 2.0", "q * t(k) * rsqrt(depth) * 3.0")
    killed_as_it_compiles()
    expect(compiled() == ["second"], "expected a build after one that was killed to compile what that one was at")
    expect(compiled() == [], "expected nothing to do after that")
    for source in ("inspect/dump_passes.cpp", "inspect/input_roles.cpp", "inspect/node_text.cpp", "emit/c_header.cpp", "schedules/shape_bucket.cpp", "tuner/statistics.cpp",
                   "commands/schedule_option.cpp", "commands/variant_named.cpp"):
        edited("generators/src/" + source)
        found = compiled()
        expect(found == [], f"expected an edit of {source} to compile no kernel, got {found}")
    edited("generators/src/analysis/plan.cpp")
    expect(sorted(compiled()) == ["first", "second", "third"], "expected an edit of what says what a kernel is to compile all three")


def mpi(user):
    """The component mpi, and all others without it."""
    options, project = user.options, user.copied("tests", "install", "over_mpi")
    prefix = user.install("dsl", "runtime", "mpi")
    start = [os.path.join(options.source, "tests", "scale", "run"), "2"]

    def runs(app):
        said = run(*start, app, env={**os.environ, "MPIRUN": options.mpirun})
        expect(said.split() == ["agreed", "agreed"], f"expected two ranks to agree, got {said}")

    build = user.work("over_mpi_build")
    user.build(project, build, "-DCOMPONENT=mpi", prefixes=[prefix])
    runs(os.path.join(build, "app"))
    runs(os.path.join(build, "app_in_c"))

    library = {name: os.path.join(where, name) for where, _, names in os.walk(prefix) for name in names if name.endswith(".a")}
    for name, file in library.items():
        has = "MPI_" in run("nm", file)
        expect(has == (name == "libattune_mpi.a"), f"expected MPI in libattune_mpi.a alone, got {'some' if has else 'none'} in {name}")
    if shutil.which("pkg-config"):
        folder = os.path.join(os.path.dirname(library["libattune_mpi.a"]), "pkgconfig")
        flags = shlex.split(run("pkg-config", "--cflags", "--libs", "attune-mpi", env={**os.environ, "PKG_CONFIG_PATH": folder}))
        app = user.work("by_pkg_config")
        run(options.mpi_compiler, "-std=c++20", os.path.join(project, "main.cpp"), "-o", app, *flags)
        runs(app)
        app, wrapper = user.work("in_c_by_pkg_config"), os.path.basename(options.mpi_compiler).replace("cxx", "cc").replace("c++", "cc")
        run(os.path.join(os.path.dirname(options.mpi_compiler), wrapper), "-std=c99", "-Wall", "-Wextra", os.path.join(project, "main.c"), "-o", app, *flags)
        runs(app)
    else:
        print("skipped: no pkg-config here, so attune-mpi.pc was not tried")

    def refused(expected, *settings):
        said = subprocess.run([*user.hide, options.cmake, "-S", project, "-B", user.work("refused"), *user.common, f"-DCMAKE_PREFIX_PATH={prefix};{options.prefix_path}", *settings],
                              capture_output=True, text=True)
        expect(said.returncode != 0 and expected in " ".join(said.stderr.split()), f"expected {expected}, got {said.stderr}")

    example = user.work("example_build")
    user.build(user.copied("examples", "context_parallel"), example, f"-DHalide_DIR={options.halide}", prefixes=[options.build], of_attune=[options.source])
    print(run(*start, os.path.join(example, "app"), "500", env={**os.environ, "MPIRUN": options.mpirun}))

    no_mpi = "-DCMAKE_DISABLE_FIND_PACKAGE_MPI=TRUE"
    refused("MPI could not be found", "-DCOMPONENT=mpi", no_mpi)
    user.build(project, user.work("without_mpi_build"), "-DCOMPONENT=runtime", no_mpi, prefixes=[prefix])
    os.remove(next(os.path.join(where, name) for where, _, names in os.walk(prefix) for name in names if name == "attune_mpi.cmake"))
    refused("attune::mpi is not there: attune was built where CMake found no MPI", "-DCOMPONENT=mpi")


def sizes(user):
    """The runtime in under 450 KB."""
    whole = user.work("runtime.so")
    run(user.options.compiler, "-shared", "-o", whole, "-Wl,--whole-archive", os.path.join(user.options.build, "runtime", "libattune_runtime.a"), "-Wl,--no-whole-archive",
        "-ldl", "-pthread")
    check_size(user, "runtime", whole, 450e3)


def kernel_sizes(user):
    """One variant of f32 and bf16, two depths, three ISA levels, prefill and decode in under 3 MB."""
    check_size(user, "kernels", user.options.kernels, 3e6)


def check_size(user, name, file, limit):
    stripped = user.work("stripped")
    run("strip", "-o", stripped, file)
    size = os.path.getsize(stripped)
    expect(size < limit, f"{name}: {size} bytes, expected fewer than {limit:.0f}")
    print(json.dumps({name: size}))


def main():
    ways = {way.__name__: way for way in (package, kernels, build_tree, warnings, warnings_clang, dlpack, common, archives, subdirectory, subdirectory_ready, reproducible, reproducible_sources, cross, rebuilds, mpi, sizes, kernel_sizes)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("way", choices=ways)
    for name in ("source", "build", "work", "cmake", "cpack", "generator", "make-program", "compiler", "c-compiler", "halide", "dlpack"):
        parser.add_argument("--" + name, required=True)
    for name in ("prefix-path", "boost", "clang", "cross-prefix", "emulator", "kernels", "level", "mpirun", "mpi-compiler"):
        parser.add_argument("--" + name, default="")
    options = parser.parse_args()
    shutil.rmtree(options.work, ignore_errors=True)
    os.makedirs(options.work)
    os.environ["CMAKE_BUILD_PARALLEL_LEVEL"] = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", "2")
    ways[options.way](User(options))
    shutil.rmtree(options.work)


if __name__ == "__main__":
    sys.exit(main())
