# shellcheck shell=bash
# Sourced by ./tests/run full:levels: the tests as they run on lesser machines, most demanding levels hidden by ATTUNE_MAX_LEVEL.
# What the compiler refuses and what is read off texts (reject, language) does not look at the CPU.

if [ "$(uname -m)" != x86_64 ]; then
    say "This machine has one level: there is none to hide"
    return 0
fi

# test_up_to <level> <argument of ctest>...: less the entries that hide levels themselves.
test_up_to() {
    say "Testing up to $1: ${*:2}"
    ATTUNE_MAX_LEVEL="$1" ctest "${@:2}" --parallel "$(getconf _NPROCESSORS_ONLN)" --exclude-regex '[.]up_to_|[.]unknown_limit' \
        --label-exclude "^(full|reject|language${left_out-})\$" --output-on-failure --no-tests=ignore
}

for level in x86-64-v4 x86-64-v3; do test_up_to "$level" --preset default "$@"; done

# Most kernels of build/default are for x86-64-v3 and v4: others are compiled for the least level. What compiles kernels in process has no need of that.
# Not `install`: this build takes the generators of the other, and has none of its own to install.
say "Building for x86-64-v2"
cmake --preset v2 >build/.setup/v2.log 2>&1 || { cat build/.setup/v2.log >&2; exit 1; }
cmake --build --preset v2
left_out="|install" test_up_to x86-64-v2 --preset v2 "$@"
for folder in generators layers tuner; do test_up_to x86-64-v2 --test-dir "build/default/tests/$folder" "$@"; done
