#include "inspect/draw_inputs.hpp"

#include "base/formatting.hpp"
#include "inspect/input_roles.hpp"
#include "inspect/input_values.hpp"

#include <attune/ir/element.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <random>

namespace attune::generators::inline inspect {
namespace {

class picture_inputs {
public:
    picture_inputs(const graph_ir& graph, draw_request& request)
        : graph_(graph),
          request_(request),
          declared_(declarations(graph)),
          given_(parse(declared_, request.inputs)),
          roles_(roles_of_inputs(graph)) {}

    std::vector<drawn_input> all() {
        settle_numbers();
        std::vector<drawn_input> inputs;
        for (std::size_t i = 0; i < declared_.size(); ++i)
            inputs.push_back(declared_[i].is_scalar ? scalar(i) : tensor(i));
        return inputs;
    }

private:
    /// Open numbers come from the given tensors, or are chosen.
    void settle_numbers() {
        for (const input_declaration& d : declared_) {
            const auto given = given_.find(std::string(d.name));
            if (given == given_.end() || !given->second.tensor) continue;
            const auto& shape = given->second.tensor->shape;
            if (shape.size() != d.rank)
                refuse_input(fmt::format("expected the input {} with {} axes, got {}", d.name, d.rank, shape.size()));
            for (std::size_t axis = 0; axis < shape.size(); ++axis)
                if (int* const number = number_of(d.axes[axis].kind); number && *number == 0 && shape[axis] > 1)
                    *number = static_cast<int>(std::min<std::int64_t>(shape[axis], 1 << 20));
        }
        const auto choose = [](int& number, int otherwise) { number = number ? number : otherwise; };
        choose(request_.queries, 256), choose(request_.keys, request_.queries);
        choose(request_.heads, std::max(8, request_.head + 1)), choose(request_.key_heads, request_.heads);
        choose(request_.depth, 64), choose(request_.value_depth, request_.depth);
        const double cells = static_cast<double>(request_.queries) * request_.keys;
        if (request_.queries < 1 || request_.keys < 1 || cells > (1 << 24))
            refuse_input(fmt::format("expected a picture of 1 to 2^24 pairs, got {} queries and {} keys",
                                     request_.queries, request_.keys));
        if (request_.head < 0 || request_.head >= request_.heads)
            refuse_input(fmt::format("expected a head below {}, got {}", request_.heads, request_.head));
        if (request_.batch < 0 || request_.batch > 1 << 16)
            refuse_input(fmt::format("expected a batch element from 0 to 65536, got {}", request_.batch));
        if (request_.key_heads < 1 || request_.heads % request_.key_heads != 0)
            refuse_input(fmt::format("expected heads that are a multiple of the key heads, got {} and {}",
                                     request_.heads, request_.key_heads));
    }

    int* number_of(axis_kind axis) {
        switch (axis) {
            case axis_kind::head: return &request_.heads;
            case axis_kind::key_head: return &request_.key_heads;
            case axis_kind::query: return &request_.queries;
            case axis_kind::key: return &request_.keys;
            case axis_kind::depth: return &request_.depth;
            case axis_kind::value_depth: return &request_.value_depth;
            default: return nullptr;
        }
    }

    int extent_of(axis_kind axis, int of_free) {
        if (axis == axis_kind::batch) return request_.batch + 1;
        if (axis == axis_kind::position) return std::max(request_.queries, request_.keys);
        return axis == axis_kind::free ? of_free : *number_of(axis);
    }

    drawn_input scalar(std::size_t i) {
        const input_declaration& d = declared_[i];
        drawn_input input{std::string(d.name), d.element, {}, {}, {}, {}, {}, {}};
        const auto given = given_.find(input.name);
        input.given = given != given_.end();
        if (!input.given)
            input.number =
                d.element == element_type::i32 ? std::max(1, std::min(request_.queries, request_.keys) / 4) : 1;
        else if (given->second.number)
            input.number = *given->second.number;
        else
            input.number = number_from(given->second.text, input.name);
        input.is = number_text(input.number);
        return input;
    }

    drawn_input tensor(std::size_t i) {
        const input_declaration& d = declared_[i];
        drawn_input input{std::string(d.name),
                          d.element == element_type::any ? element_type::f32 : d.element,
                          {},
                          {},
                          {},
                          {},
                          {},
                          {}};
        const bool is_lengths = i + 1 == declared_.size();
        const input_role role = is_lengths ? input_role{.read = true, .is = input_role::upper_bound} : roles_[i];
        for (int axis = 0; axis < d.rank; ++axis)
            input.shape.push_back(extent_of(
                d.axes[axis].kind, role.by_position[axis] ? std::max(request_.queries, request_.keys)
                                   : role.is == input_role::lower_bound || role.is == input_role::upper_bound ? 6
                                                                                                              : 16));
        const auto given = given_.find(input.name);
        input.given = given != given_.end();
        if (input.given)
            fill_as_given(input, d, given->second);
        else if (is_lengths)
            fill(input, [&](std::span<const int>) { return request_.keys; });
        else if (role.read)
            fill_as_used(input, d, role);
        else
            repeat_zero(input);
        if (role.read && (!is_lengths || input.given)) input.is = summary(input, d);
        return input;
    }

    /// One row along the innermost axis stands for all: the picture does not read it.
    static void repeat_zero(drawn_input& input) {
        input.strides.assign(input.shape.size(), 0);
        input.strides.back() = 1;
        input.bytes.assign(
            static_cast<std::size_t>(input.shape.back()) * static_cast<std::size_t>(bytes_of(input.element)),
            std::byte{});
    }

    void fill_as_given(drawn_input& input, const input_declaration& d, const given_input& given) {
        if (given.tensor) return fill_from(input, d, *given.tensor);
        if (given.text.starts_with("random")) {
            unsigned seed = 1;
            if (given.text != "random" && std::sscanf(given.text.c_str(), "random(%u)", &seed) != 1)
                refuse_input(fmt::format("expected random(seed) for the input {}, got \"{}\"", input.name, given.text));
            std::mt19937 random(seed);
            std::normal_distribution<double> normal;
            return fill(input, [&](std::span<const int>) {
                return input.element == element_type::f32       ? normal(random)
                       : input.element == element_type::boolean ? random() % 2
                                                                : random() % 256;
            });
        }
        const std::vector<double> values = list_from(given.text, input.name);
        if (values.size() > 1 && d.axes[d.rank - 1].kind == axis_kind::free)
            input.shape.back() = static_cast<int>(values.size());
        fill(input,
             [&](std::span<const int> at) { return values[static_cast<std::size_t>(at.back()) % values.size()]; });
    }

    void fill_from(drawn_input& input, const input_declaration& d, const dense_tensor& stored) {
        const bool alike = stored.element == input.element ||
                           (stored.element == element_type::u8 && input.element == element_type::boolean) ||
                           (stored.element == element_type::boolean && input.element == element_type::u8) ||
                           (stored.element == element_type::i32 && input.element == element_type::i64) ||
                           d.element == element_type::any;
        if (!alike)
            refuse_input(fmt::format("expected the input {} with elements of type {}, got {}", input.name,
                                     name_of(input.element), name_of(stored.element)));
        const std::vector<int> wanted = input.shape;
        for (std::size_t axis = 0; axis < input.shape.size(); ++axis) {
            input.shape[axis] = static_cast<int>(stored.shape[axis]);
            const axis_kind along = d.axes[axis].kind;
            const bool fits =
                stored.shape[axis] == 1 || along == axis_kind::free ||
                (along == axis_kind::position || along == axis_kind::batch ? stored.shape[axis] >= wanted[axis]
                                                                           : stored.shape[axis] == wanted[axis]);
            if (!fits)
                refuse_input(fmt::format("expected the input {} with {} along its axis {}, got {}", input.name,
                                         wanted[axis], d.axes[axis].name, stored.shape[axis]));
        }
        input.element = stored.element == element_type::bf16 || stored.element == element_type::f16 ? stored.element
                                                                                                    : input.element;
        make_dense(input);
        if (input.element == element_type::i64)
            for (std::size_t i = 0; i < stored.bytes.size() / sizeof(std::int32_t); ++i) {
                std::int32_t x;
                std::memcpy(&x, &stored.bytes[i * sizeof x], sizeof x);
                put(input, i, x);
            }
        else
            std::copy(stored.bytes.begin(), stored.bytes.end(), input.bytes.begin());
        for (std::size_t axis = 0; axis < input.shape.size(); ++axis)
            if (input.shape[axis] == 1 && wanted[axis] > 1 && d.axes[axis].kind != axis_kind::free)
                input.shape[axis] = wanted[axis], input.strides[axis] = 0;
    }

    void fill_as_used(drawn_input& input, const input_declaration& d, const input_role& role) {
        const int last = d.rank - 1, length = input.shape[last];
        const axis_kind along = d.axes[last].kind;
        const bool pairs = d.rank > 1 && length > 1 && input.shape[last - 1] > 1 &&
                           d.axes[last - 1].kind != axis_kind::head && d.axes[last - 1].kind != axis_kind::batch;
        const int keys = request_.keys, positions = std::max(request_.queries, keys);
        const auto noise = [&](int row, int column) {
            return std::mt19937(static_cast<unsigned>(row * 7919 + column * 104729 + 17))();
        };
        const auto fraction = [&](std::span<const int> at) {
            return static_cast<double>(at.back()) / std::max(1, length);
        };
        if (input.element == element_type::boolean || role.is == input_role::bits) {
            const bool bits = role.is == input_role::bits;
            if (!pairs && !bits)
                return fill(input, [&](std::span<const int> at) {
                    return along == axis_kind::head ? at.back() % 2 == 0 : at.back() % 32 < 2;
                });
            return fill(input, [&](std::span<const int> at) {
                return (pairs ? noise(at[static_cast<std::size_t>(last - 1)] / 8, bits ? at.back() : at.back() / 8)
                              : noise(at.back(), 0)) %
                       (bits ? 256 : 2);
            });
        }
        if (is_integer(input.element)) {
            const bool row = along == axis_kind::query || along == axis_kind::key || along == axis_kind::position;
            const auto bound = [&](std::span<const int> at) {  // of keys, from one end of the axis to the other
                const double place =
                    row ? fraction(at) * keys
                    : along == axis_kind::free
                        ? std::pow(static_cast<double>(at.back()) / std::max(1, length - 1), 1.25) * positions
                    : along == axis_kind::batch || along == axis_kind::head ? 0.4 * keys
                                                                            : 0;
                const double reach = row ? 0.15 * keys : along == axis_kind::free ? 0 : 0.25 * keys;
                return role.is == input_role::lower_bound ? std::max(0.0, place - reach)
                       : along == axis_kind::free         ? std::pow((at.back() + 1.0) / length, 1.25) * positions
                                                          : std::min<double>(keys, place + reach + 1);
            };
            switch (role.is) {
                case input_role::lower_bound:
                case input_role::upper_bound: return fill(input, bound);
                case input_role::offset:
                    return fill(input, [&](std::span<const int>) {
                        return keys > request_.queries ? keys - request_.queries : keys / 8;
                    });
                default: break;
            }
            if (pairs)
                return fill(input, [&](std::span<const int> at) {
                    return noise(at[static_cast<std::size_t>(last - 1)] / 8, at.back() / 8) % 3;
                });
            if (!row) return fill(input, [&](std::span<const int> at) { return at.back(); });
            // Documents, the first ones shorter; then parts inside documents, then numbers that take turns.
            const int kind_of_number = numbered_++ % 3;
            return fill(input, [&](std::span<const int> at) {
                return kind_of_number == 2 ? at.back() * 24 / length % 2
                                           : std::floor((kind_of_number ? 12 : 5) * std::pow(fraction(at), 0.8));
            });
        }
        if (along == axis_kind::head)
            return fill(input, [&](std::span<const int> at) { return std::exp2(-8.0 * (at.back() + 1) / length); });
        using std::numbers::pi;
        if (pairs)
            return fill(input, [&](std::span<const int> at) {
                return std::cos(3 * pi * at[static_cast<std::size_t>(last - 1)] / input.shape[last - 1]) *
                       std::sin(4 * pi * fraction(at));
            });
        fill(input, [&](std::span<const int> at) { return along == axis_kind::batch ? 1 : 1 - 2 * fraction(at); });
    }

    /// The elements that the drawn batch element and head see.
    std::string summary(const drawn_input& input, const input_declaration& d) const {
        std::size_t start = 0;
        int last = d.rank - 1, wide = 0;
        for (int axis = 0; axis < d.rank; ++axis) {
            const axis_kind along = d.axes[axis].kind;
            const int at = along == axis_kind::batch      ? request_.batch
                           : along == axis_kind::head     ? request_.head
                           : along == axis_kind::key_head ? request_.head / (request_.heads / request_.key_heads)
                                                          : 0;
            if (axis < last) start += static_cast<std::size_t>(at) * static_cast<std::size_t>(input.strides[axis]);
            wide += axis < last && input.shape[axis] > 1 && along != axis_kind::batch && along != axis_kind::head &&
                    along != axis_kind::key_head;
        }
        if (wide > 0) return "";
        std::vector<double> values;
        for (int i = 0; i < input.shape[last]; ++i)
            values.push_back(value_at(input, start + static_cast<std::size_t>(i * input.strides[last])));
        return list_text(values);
    }

    const graph_ir& graph_;
    draw_request& request_;
    std::vector<input_declaration> declared_;
    given_inputs given_;
    std::vector<input_role> roles_;
    int numbered_{};  ///< inputs that number positions, so far
};

}  // namespace

std::vector<drawn_input> inputs_of_picture(const graph_ir& graph, draw_request& request) {
    return picture_inputs(graph, request).all();
}

}  // namespace attune::generators::inline inspect
