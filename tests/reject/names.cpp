// Names of an application that hide words of the language: the formulas of each twin stand in a namespace inside of the
// application's.
#include "language.hpp"

// --- axis_hidden_by_a_function
// rejects: a name of your own may hide one, such as attune::dsl::batch
namespace engine {
inline void batch(int) {}
namespace formulas {
using namespace attune::dsl;
#ifndef REJECT
using attune::dsl::batch;
#endif
inline constexpr auto documents = input<"documents", i32>(batch, position);
inline constexpr auto variant = softmax(mask(q * t(k), documents(b, q_idx) == documents(b, kv_idx))) * v;
inline constexpr auto text = description<variant>;
}  // namespace formulas
}  // namespace engine

// --- axis_hidden_by_a_number
// rejects: a name of your own may hide one, such as attune::dsl::batch
namespace engine {
inline constexpr int batch = 8;
namespace formulas {
using namespace attune::dsl;
#ifndef REJECT
using attune::dsl::batch;
#endif
inline constexpr auto documents = input<"documents", i32>(batch, position);
inline constexpr auto variant = softmax(mask(q * t(k), documents(b, q_idx) == documents(b, kv_idx))) * v;
inline constexpr auto text = description<variant>;
}  // namespace formulas
}  // namespace engine

// --- axis_hidden_by_a_type
// rejects: (expected primary-expression|does not refer to a value)
namespace engine {
struct batch {};
struct head {};
enum class key { one };
struct step {};
namespace formulas {
using namespace attune::dsl;
#ifndef REJECT
using attune::dsl::batch, attune::dsl::head, attune::dsl::key;
#endif
inline constexpr auto bias = input<"bias", f32>(batch, head, key);
inline constexpr auto step = softmax(q * t(k) + bias(b, h, kv_idx)) * v;
inline constexpr auto text = description<step>;
}  // namespace formulas
}  // namespace engine

// --- index_hidden_by_a_value
// rejects: a name of your own may hide an index, such as attune::dsl::h
namespace engine {
struct handle {};
inline constexpr handle h{};
namespace formulas {
using namespace attune::dsl;
#ifndef REJECT
using attune::dsl::h;
#endif
inline constexpr auto slopes = input<"slopes", f32>(head);
inline constexpr auto variant = softmax(q * t(k) + slopes(h)) * v;
inline constexpr auto text = description<variant>;
}  // namespace formulas
}  // namespace engine
