// attune_halide_runtime <target> <file>: writes Halide's support library for kernels (errors, threads, memory),
// compiled for a plain CPU, as one object. It becomes part of attune::runtime, so that the kernels of every variant
// share one copy.
#include "base/whole_file.hpp"

#include <Halide.h>

#include <exception>
#include <iostream>

int main(int argc, char** argv) {
    if (argc != 3) {
        std::cerr << "expected a Halide target and an object file, got " << argc - 1
                  << " arguments; try attune_halide_runtime x86-64-linux runtime.o\n";
        return 2;
    }
    try {
        attune::generators::whole_file object(argv[2]);
        Halide::compile_standalone_runtime(object.part().string(), Halide::Target{argv[1]});
        object.keep();
    } catch (const std::exception& problem) {
        std::cerr << problem.what() << '\n';
        return 1;
    } catch (const Halide::Error& problem) {  // not a std::exception
        std::cerr << problem.what() << '\n';
        return 1;
    }
}
