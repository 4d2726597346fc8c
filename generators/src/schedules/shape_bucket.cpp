#include "schedules/shape_bucket.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace attune::generators::inline schedules {
namespace {
constexpr int most_tokens_of_a_draft = 4;
constexpr shape_bucket all[] = {shape_bucket::prefill, shape_bucket::short_prefill, shape_bucket::decode,
                                shape_bucket::gradient};
}  // namespace

std::string_view name_of(shape_bucket bucket) {
    switch (bucket) {
        case shape_bucket::prefill: return "prefill";
        case shape_bucket::short_prefill: return "short";
        case shape_bucket::decode: return "decode";
        case shape_bucket::gradient: return "gradient";
    }
    return "";
}

std::span<const shape_bucket> shape_buckets() { return all; }

shape_bucket shape_bucket_named(std::string_view name) {
    for (const shape_bucket each : all)
        if (name_of(each) == name) return each;
    throw std::runtime_error("expected a shape bucket among prefill, short, decode, gradient, got \"" +
                             std::string(name) + "\"");
}

shape_bucket bucket_of(const schedule& s) {
    if (const auto* chunk = std::get_if<cpu_recurrence>(&s))
        return chunk->block == 1                        ? shape_bucket::decode
               : chunk->block <= most_tokens_of_a_draft ? shape_bucket::short_prefill
                                                        : shape_bucket::prefill;
    return is_for_gradient(s) ? shape_bucket::gradient : decodes(s) ? shape_bucket::decode : shape_bucket::prefill;
}

bool serves(const schedule& s, shape_bucket bucket) {
    if (is_for_recurrence(s)) return bucket_of(s) == bucket;  // kernels for few tokens are kernels of their own
    return bucket_of(s) == (bucket == shape_bucket::short_prefill ? shape_bucket::prefill : bucket);
}

std::int64_t usual_width(const call_shape& call) { return std::clamp<std::int64_t>(call.keys / 4, 1, 256); }

call_shape measured_shape(shape_bucket bucket) {
    switch (bucket) {
        case shape_bucket::prefill:
        case shape_bucket::gradient: return {1, 1, 1, 1024, 1024};
        case shape_bucket::short_prefill: return {8, 4, 4, 96, 96};
        case shape_bucket::decode:
            return {1, 32, 8, 1, 16384};  // of f32 and depth 64 keys and values take 64 MiB: more than caches hold
    }
    return {};
}

}  // namespace attune::generators::inline schedules
