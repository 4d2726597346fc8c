#include <attune/ir/operations.hpp>
#include <attune/mpi/whole_chunks.hpp>

#include <algorithm>
#include <functional>

/// What a condition's numbers are at each position of a chunk.
namespace attune::mpi::detail {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// As a kernel computes: in 32 bits, around and around.
std::int32_t wrapped(std::int64_t x) { return static_cast<std::int32_t>(static_cast<std::uint32_t>(x)); }

template <class Function>
void each_of(std::vector<std::int32_t>& a, std::span<const std::int32_t> b, Function compute) {
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = compute(a[i], b[i]);
}

template <class Element>
void read(const tensor& from, const std::vector<std::int64_t>& places, std::vector<std::int32_t>& to, bool& fits) {
    const auto* const data = static_cast<const Element*>(from.data());
    for (std::size_t i = 0; i < to.size(); ++i) {
        to[i] = static_cast<std::int32_t>(data[places[i]]);
        fits = fits && to[i] == data[places[i]];
    }
}

}  // namespace

void whole_chunks::tabulate(step& of, const chunks& tokens, int first, int last) {
    const std::int32_t anywhere = 0;
    const int count = of.of == of_queries ? last - first : of.of == of_keys ? tokens.count() : 1;
    for (int plane = 0; plane < (of.by_plane ? planes_ : 1) && known_; ++plane)
        for (int c = 0; c < count && known_; ++c) {
            const auto positions = of.of == of_queries ? tokens.positions(first + c)
                                   : of.of == of_keys  ? tokens.positions(c)
                                                       : std::span(&anywhere, 1);
            const numbers all = values(of, {positions, plane / of_.heads, plane % of_.heads});
            if (all.empty()) {
                known_ = false;
                return;
            }
            const auto [least, most] = std::ranges::minmax(all);
            of.ranges.push_back({least, most});
        }
}

whole_chunks::numbers whole_chunks::values(const step& of, const place& here) {
    if (of.how == found::once) return numbers(here.positions.size(), static_cast<std::int32_t>(of.ranges[0].lowest));
    if (of.node->op == operation::b) return numbers(here.positions.size(), static_cast<std::int32_t>(here.batch));
    if (of.node->op == operation::h) return numbers(here.positions.size(), static_cast<std::int32_t>(here.head));
    if (of.node->op == operation::load) return loaded(of, here);
    return computed(of, here);
}

whole_chunks::numbers whole_chunks::loaded(const step& of, const place& here) {
    numbers all(here.positions.begin(), here.positions.end());
    if (!of.read) return all;
    const input_declaration& declared = graph_.inputs[at(graph_.nodes[at(of.node->arguments[0])].input)];
    std::vector<std::int64_t> places(all.size());
    for (std::size_t a = 0; a < of.arguments.size(); ++a) {
        const std::int64_t last = of.read->extent(static_cast<int>(a)) - 1,
                           stride = of.read->stride(static_cast<int>(a));
        const axis_kind axis = declared.axes[a].kind;
        const numbers index = of.arguments[a] < 0 ? all : values(steps_[at(of.arguments[a])], here);
        // Positions end with a table; beyond other axes an index is refused when a kernel is asked.
        const bool ends =
            last == 0 || axis == axis_kind::position || axis == axis_kind::query || axis == axis_kind::key;
        for (std::size_t i = 0; i < places.size(); ++i) {
            const std::int64_t clamped = std::clamp<std::int64_t>(index[i], 0, last);
            known_ = known_ && (ends || clamped == index[i]);
            places[i] += clamped * stride;
        }
    }
    switch (of.read->type()) {
        case element_type::i32: read<std::int32_t>(*of.read, places, all, known_); break;
        case element_type::i16: read<std::int16_t>(*of.read, places, all, known_); break;
        case element_type::i8: read<std::int8_t>(*of.read, places, all, known_); break;
        case element_type::u8: read<std::uint8_t>(*of.read, places, all, known_); break;
        case element_type::i64: read<std::int64_t>(*of.read, places, all, known_); break;
        case element_type::boolean:
            read<std::uint8_t>(*of.read, places, all, known_);
            for (std::int32_t& each : all) each = each != 0;
            break;
        default: known_ = false;
    }
    return all;
}

namespace {

using wide = std::int64_t;
/// In place of the first argument.
using rule = void (*)(std::vector<std::int32_t>& a, std::span<const std::int32_t> b);
template <auto Function> constexpr rule each = [](auto& a, auto b) { each_of(a, b, Function); };

constexpr by_operation<family::arithmetic, rule> of_arithmetic{
    {operation::negate, each<[](wide x, wide) { return wrapped(-x); }>},
    {operation::absolute, each<[](wide x, wide) { return wrapped(x < 0 ? -x : x); }>},
    {operation::add, each<[](wide x, wide y) { return wrapped(x + y); }>},
    {operation::subtract, each<[](wide x, wide y) { return wrapped(x - y); }>},
    {operation::multiply, each<[](wide x, wide y) { return wrapped(x * y); }>},
    {operation::divide, each<[](wide x, wide y) { return wrapped(x / y - (x % y < 0)); }>},
    {operation::remainder, each<[](wide x, wide y) { return wrapped(x % y + (x % y < 0 ? y : 0)); }>},
    {operation::minimum, each<[](wide x, wide y) { return wrapped(std::min(x, y)); }>},
    {operation::maximum, each<[](wide x, wide y) { return wrapped(std::max(x, y)); }>}};

constexpr by_operation<family::bits, rule> of_bits{
    {operation::bit_and, each<std::bit_and<>{}>},
    {operation::bit_or, each<std::bit_or<>{}>},
    {operation::bit_xor, each<std::bit_xor<>{}>},
    {operation::shift_left, each<[](wide x, wide y) { return wrapped(x * (wide{1} << y)); }>},
    {operation::shift_right, each<[](wide x, wide y) { return wrapped(x >> y); }>}};

constexpr by_operation<family::comparison, rule> of_comparisons{
    {operation::equal, each<std::equal_to<>{}>},  {operation::not_equal, each<std::not_equal_to<>{}>},
    {operation::less, each<std::less<>{}>},       {operation::less_equal, each<std::less_equal<>{}>},
    {operation::greater, each<std::greater<>{}>}, {operation::greater_equal, each<std::greater_equal<>{}>}};

constexpr by_operation<family::logic, rule> of_logic{
    {operation::logical_and, each<std::logical_and<>{}>},
    {operation::logical_or, each<std::logical_or<>{}>},
    {operation::logical_not, each<[](wide x, wide) { return x == 0; }>}};

/// Kernels say what division by nothing and shifts by too much come to.
bool is_defined(operation op, std::span<const std::int32_t> b) {
    const bool divides = op == operation::divide || op == operation::remainder,
               shifts = op == operation::shift_left || op == operation::shift_right;
    if (!divides && !shifts) return true;
    return std::ranges::all_of(b, [&](std::int32_t y) { return divides ? y > 0 : y >= 0 && y < 32; });
}

}  // namespace

whole_chunks::numbers whole_chunks::computed(const step& of, const place& here) {
    const auto argument = [&](std::size_t i) { return values(steps_[at(of.arguments[i])], here); };
    const operation op = of.node->op;
    numbers a = argument(0);
    if (op == operation::to_integer) return a;
    const numbers b = of.arguments.size() > 1 ? argument(1) : a;
    if (op == operation::where) {
        const numbers c = argument(2);
        for (std::size_t i = 0; i < a.size(); ++i) a[i] = a[i] ? b[i] : c[i];
        return a;
    }
    if (!is_defined(op, b)) {
        known_ = false;
        return a;
    }
    const family of_this = family_of(op);
    const rule computes = of_this == family::comparison ? of_comparisons[op]
                          : of_this == family::logic    ? of_logic[op]
                          : of_this == family::bits     ? of_bits[op]
                                                        : of_arithmetic[op];
    computes(a, b);
    return a;
}

}  // namespace attune::mpi::detail
