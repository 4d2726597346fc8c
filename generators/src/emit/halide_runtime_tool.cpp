// attune_halide_runtime <target> <file>: writes Halide's support library for kernels (errors, threads, memory),
// compiled for a plain CPU, as one object. It becomes part of attune::runtime, so that the kernels of every variant
// share one copy.
#include <Halide.h>

#include <iostream>

int main(int argc, char** argv) {
    if (argc != 3) {
        std::cerr << "expected a Halide target and an object file, got " << argc - 1
                  << " arguments; try attune_halide_runtime x86-64-linux runtime.o\n";
        return 2;
    }
    try {
        Halide::compile_standalone_runtime(std::string{argv[2]}, Halide::Target{argv[1]});
    } catch (const Halide::Error& problem) {  // not a std::exception
        std::cerr << problem.what() << '\n';
        return 1;
    }
}
