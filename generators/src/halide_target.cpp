#include "halide_target.hpp"

namespace attune::generators {

Halide::Target halide_target(const level& isa) {
    Halide::Target target{std::string(isa.halide)};
    target.set_feature(Halide::Target::UserContext);  // every call carries its own error and thread context
    target.set_feature(Halide::Target::NoRuntime);    // attune::runtime holds the one copy
    return target;
}

}  // namespace attune::generators
