// The cache in f32 alone: what language_model is linked with in CI, in place of caches.cpp, whose kernels take minutes.
#include "caches.hpp"

#include <stdexcept>

namespace language_model {

std::unique_ptr<cache> make_cache(const std::string& kind, const sizes& model, std::int64_t sequences,
                                  std::int64_t slots) {
    if (kind != "f32") throw std::invalid_argument("expected a cache f32, got " + kind);
    return std::make_unique<contiguous_cache<float>>(model, sequences, slots);
}

}  // namespace language_model
