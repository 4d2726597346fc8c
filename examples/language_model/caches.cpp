#include "caches.hpp"

#include <stdexcept>

namespace language_model {

std::unique_ptr<cache> make_cache(const std::string& kind, const sizes& model, std::int64_t sequences,
                                  std::int64_t slots) {
    if (kind == "f32") return std::make_unique<contiguous_cache<float>>(model, sequences, slots);
    if (kind == "bf16") return std::make_unique<contiguous_cache<attune::bfloat16>>(model, sequences, slots);
    if (kind == "i8") return std::make_unique<byte_cache>(model, sequences, slots);
    if (kind == "pages") return std::make_unique<page_cache>(model, sequences, slots);
    throw std::invalid_argument("expected a cache f32, bf16, i8 or pages, got " + kind);
}

}  // namespace language_model
