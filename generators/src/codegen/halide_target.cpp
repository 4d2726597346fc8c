#include "codegen/halide_target.hpp"

#include <cstdio>
#include <string_view>

namespace attune::generators::inline codegen {
namespace {

/// Halide warns of every function that computes in f32 with numbers of 16 bits; attune's functions do so on purpose.
struct reporter : Halide::CompileTimeErrorReporter {
    void warning(const char* text) override {
        if (std::string_view(text).find("float16 type operation is emulated") == std::string_view::npos)
            std::fputs(text, stderr);
    }
    [[noreturn]] void error(const char* text) override { throw Halide::CompileError(text); }
};

}  // namespace

Halide::Target halide_target(const level& isa) {
    static reporter reports;
    Halide::set_custom_compile_time_error_reporter(&reports);
    Halide::Target target{std::string(isa.halide)};
    target.set_feature(Halide::Target::UserContext);  // every call carries its own error and thread context
    target.set_feature(Halide::Target::NoRuntime);    // attune::runtime holds the one copy
    return target;
}

}  // namespace attune::generators::inline codegen
