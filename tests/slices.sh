# shellcheck shell=bash
# Sourced by ./tests/run: the parts of what takes long, each by itself. build/default is built by then; what follows the slice goes to ctest, or to what is named here.

slices="long levels differences formulas mutants sanitizers soak fuzzers odr mpi torch jax tvm_ffi vllm ggml language_model"  # the last six: tests/run itself, before it builds everything

# The tests with the label `full`, what needs clang++, which set-up does not install, and how long kernels take to be lowered.
slice_long() {
    ctest --preset default --label-regex '^full$' "$@"
    ctest --preset default -R '^install[.]warnings_clang$'
    cmake --build --preset default --target attune_lowering_time
    build/default/bin/attune_lowering_time
}

# Everything but the long tests, with each ISA level of this machine hidden in turn.
slice_levels() { . tests/levels.sh; }

# The golden files on every level, aarch64's in an emulator, and the instructions of all kernels.
slice_differences() {
    python3 tests/golden/levels.py "$@"
    ctest --preset default -R '^levels_of_all_kernels$'
}

# Random formulas for ten minutes, and a mistake that is found and made smaller.
slice_formulas() { ctest --preset default -R '^fuzz[.]formulas_(minutes|shrink)$' "$@"; }

# Each refusal of the runtime removed or made weaker in turn.
slice_mutants() { python3 tests/mutants/run.py "$@"; }

# Every test with AddressSanitizer and UndefinedBehaviorSanitizer, then with ThreadSanitizer: but for the long ones, and for misuse (label `reject`), which is
# compiled and never run. Kernels are for one level, but those that tests ask for by name: instrumented, they take long to compile.
slice_sanitizers() {
    local preset level=()
    [ "$(uname -m)" != x86_64 ] || level=(-DATTUNE_TARGETS=x86-64-v3)
    for preset in asan tsan; do
        say "Building and testing with the preset $preset"
        cmake --preset "$preset" "${level[@]}" >"build/.setup/$preset.log" 2>&1 || { cat "build/.setup/$preset.log" >&2; return 1; }
        cmake --build --preset "$preset"
        ctest --preset "$preset" --parallel "$(getconf _NPROCESSORS_ONLN)" "${@:---label-exclude=^(full|reject)$}"
    done
}

# Calls of all kinds from two threads for an hour: slice_soak 60 is a minute.
slice_soak() {
    cmake --build --preset default --target attune_soak
    build/default/bin/attune_soak --seconds "${1:-3600}"
}

# libFuzzer, five minutes each; with clang only.
slice_fuzzers() { tests/fuzz/run "${@:-300}"; }

# A generator program and the tests of ranks, linked with all their types compared: two types of one name are an error.
slice_odr() {
    cmake --preset odr >build/.setup/odr.log 2>&1 || { cat build/.setup/odr.log >&2; return 1; }
    cmake --build --preset odr "$@"
}

# Prefill and decode by twenty masks over ranks, in a build folder with its MPI: minutes of compiling.
masks_over_mpi() {
    cmake --build "$1" --target mpi_masks
    tests/scale/check_mpi.py --mpirun "$(sed -n 's/^MPIEXEC_EXECUTABLE:[A-Z]*=//p' "$1/CMakeCache.txt")" --program "$1/bin/mpi_masks" --parts masks --ranks 1 2 3 4 7 8
}

# Calls over 1 to 8 ranks with the MPI that CMake finds, then with MPICH.
slice_mpi() {
    ctest --preset default -R '^mpi([.](c|ranks))?$' "$@"
    masks_over_mpi build/default
    mpich_for_tests
    if ! have mpicxx.mpich || ! have mpiexec.mpich; then
        say "skipped: needs libmpich-dev and mpich"
        return 0
    fi
    say "With MPICH"
    cmake --preset default -B build/mpich -DMPI_CXX_COMPILER=mpicxx.mpich -DMPIEXEC_EXECUTABLE="$(command -v mpiexec.mpich)" \
        -DATTUNE_HOST_GENERATORS="$PWD/build/default/bin" >build/.setup/mpich.log 2>&1 || { cat build/.setup/mpich.log >&2; return 1; }
    cmake --build build/mpich --target mpi_ranks c_ranks
    ctest --test-dir build/mpich --output-on-failure -R '^mpi([.](c|ranks))?$' "$@"
    masks_over_mpi build/mpich
}
