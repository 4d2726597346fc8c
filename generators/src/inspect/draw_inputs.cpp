#include "inspect/draw_inputs.hpp"

#include "analysis/input_roles.hpp"
#include "base/formatting.hpp"
#include "inspect/tensor_file.hpp"

#include <attune/ir/element.hpp>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <numbers>
#include <optional>
#include <random>
#include <stdexcept>

namespace attune::generators {
namespace {

const input_declaration kv_lengths{"kv_lengths", element_type::i32, false, 1, {{{axis_kind::batch, "batch"}}}};

/// One `name=value` of the command line.
struct given_input {
    std::string text;  ///< right of the `=`
    std::optional<stored_tensor> tensor;
    std::optional<double> number;  ///< of a file
};
using given_inputs = std::map<std::string, given_input>;

[[noreturn]] void refuse(const std::string& sentence) { throw std::runtime_error(sentence); }

std::vector<input_declaration> declarations(const graph_ir& graph) {
    std::vector<input_declaration> all(graph.inputs.begin(), graph.inputs.end());
    all.push_back(kv_lengths);
    return all;
}

bool is_file(const std::string& text) {
    return text.ends_with(".safetensors") || text.find(".safetensors:") != text.npos;
}

given_inputs parse(const std::vector<input_declaration>& declared, const std::vector<std::string>& texts) {
    given_inputs all;
    for (const std::string& text : texts) {
        const auto equals = text.find('=');
        if (equals == text.npos && is_file(text)) {  // whatever it holds under the names of inputs
            tensor_file file = read_tensor_file(text);
            for (const input_declaration& d : declared) {
                const std::string name(d.name);
                if (const auto tensor = file.tensors.find(name); tensor != file.tensors.end())
                    all[name] = {text, tensor->second, {}};
                if (const auto number = file.numbers.find(name); number != file.numbers.end())
                    all[name] = {text, {}, number->second};
            }
            continue;
        }
        const std::string name = text.substr(0, equals), value = equals == text.npos ? "" : text.substr(equals + 1);
        std::string known;
        for (const input_declaration& d : declared) known += (known.empty() ? "" : ", ") + std::string(d.name);
        if (value.empty())
            refuse(
                "expected an input as name=value, name=v1,v2,..., name=random(seed) or name=FILE.safetensors, got \"" +
                text + "\"");
        if (std::none_of(declared.begin(), declared.end(), [&](const input_declaration& d) { return d.name == name; }))
            refuse("expected the name of an input of this variant, got \"" + name + "\"; try one of " + known);
        given_input one{value, {}, {}};
        if (is_file(value)) {
            const auto colon = value.find(".safetensors:");
            const std::string path = colon == value.npos ? value : value.substr(0, colon + 12),
                              inside = colon == value.npos ? name : value.substr(colon + 13);
            const tensor_file file = read_tensor_file(path);
            const auto tensor = file.tensors.find(inside);
            if (tensor == file.tensors.end()) refuse("expected a tensor \"" + inside + "\" in " + path + ", got none");
            one.tensor = tensor->second;
        }
        all[name] = std::move(one);
    }
    return all;
}

double number_from(std::string_view text, const std::string& name) {
    double value = 0;
    if (text == "inf" || text == "-inf") return text == "inf" ? HUGE_VAL : -HUGE_VAL;
    if (text == "true" || text == "false") return text == "true";
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size())
        refuse(fmt::format("expected numbers for the input {}, got \"{}\"", name, text));
    return value;
}

/// "1,2,3" or, repeated, "0*100,1*56".
std::vector<double> list_from(std::string_view text, const std::string& name) {
    std::vector<double> values;
    while (!text.empty()) {
        const std::string_view part = text.substr(0, text.find(','));
        text.remove_prefix(std::min(text.size(), part.size() + 1));
        const auto times = part.find('*');
        const double count = times == part.npos ? 1 : number_from(part.substr(times + 1), name);
        if (!(count >= 1 && count <= (1 << 24)))
            refuse(fmt::format("expected value*count with a count from 1 on for the input {}, got \"{}\"", name, part));
        values.insert(values.end(), static_cast<std::size_t>(count), number_from(part.substr(0, times), name));
    }
    return values;
}

std::uint16_t half_from(float x) {  // rounds toward zero: pictures only
    const auto bits = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude >= 0x47800000) return static_cast<std::uint16_t>(sign | 0x7c00);
    if (magnitude < 0x38800000) return static_cast<std::uint16_t>(sign);
    return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000) >> 13));
}

void put(drawn_input& input, std::size_t at, double value) {
    const auto store = [&](auto x) { std::memcpy(&input.bytes[at * sizeof x], &x, sizeof x); };
    const auto whole = [&](double low, double high) { return std::clamp(std::floor(value), low, high); };
    switch (input.element) {
        case element_type::bf16:
            return store(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16));
        case element_type::f16: return store(half_from(static_cast<float>(value)));
        case element_type::i32: return store(static_cast<std::int32_t>(whole(INT32_MIN, INT32_MAX)));
        case element_type::u8: return store(static_cast<std::uint8_t>(whole(0, 255)));
        case element_type::i8: return store(static_cast<std::int8_t>(whole(-128, 127)));
        case element_type::f8_e4m3: return store(float8_e4m3(static_cast<float>(value)).bits);
        case element_type::f8_e5m2: return store(float8_e5m2(static_cast<float>(value)).bits);
        case element_type::boolean: return store(static_cast<std::uint8_t>(value != 0));
        default: return store(static_cast<float>(value));
    }
}

/// Dense strides over `shape`; memory for all of it.
void make_dense(drawn_input& input) {
    std::size_t count = 1;
    input.strides.assign(input.shape.size(), 0);
    for (std::size_t axis = input.shape.size(); axis-- > 0;) {
        input.strides[axis] = static_cast<int>(count);
        count *= static_cast<std::size_t>(input.shape[axis]);
        if (count > (std::size_t{1} << 26))
            refuse(fmt::format("the input {} would have more than 2^26 elements; draw a smaller piece", input.name));
    }
    input.bytes.assign(count * static_cast<std::size_t>(bytes_of(input.element)), std::byte{});
}

template <class Value> void fill(drawn_input& input, Value&& value) {
    make_dense(input);
    std::vector<int> at(input.shape.size());
    const std::size_t count = input.bytes.size() / static_cast<std::size_t>(bytes_of(input.element));
    for (std::size_t i = 0; i < count; ++i) {
        put(input, i, value(std::span<const int>(at)));
        for (std::size_t axis = at.size(); axis-- > 0;) {
            if (++at[axis] < input.shape[axis]) break;
            at[axis] = 0;
        }
    }
}

std::string number_text(double x) { return fmt::format("{:.6g}", x); }

/// The first values along the last axis, runs as value*count.
std::string list_text(std::span<const double> values) {
    std::string text;
    int parts = 0;
    for (std::size_t i = 0, next; i < values.size(); i = next) {
        for (next = i; next < values.size() && values[next] == values[i]; ++next) {
        }
        if (++parts > 6) return text + ", ...";
        text +=
            (text.empty() ? "" : ", ") + number_text(values[i]) + (next - i > 1 ? fmt::format("*{}", next - i) : "");
    }
    return text;
}

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
    /// What is open comes from the tensors given, else is chosen.
    void settle_numbers() {
        for (const input_declaration& d : declared_) {
            const auto given = given_.find(std::string(d.name));
            if (given == given_.end() || !given->second.tensor) continue;
            const auto& shape = given->second.tensor->shape;
            if (shape.size() != d.rank)
                refuse(fmt::format("expected the input {} with {} axes, got {}", d.name, d.rank, shape.size()));
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
            refuse(fmt::format("expected a picture of 1 to 2^24 pairs, got {} queries and {} keys", request_.queries,
                               request_.keys));
        if (request_.head < 0 || request_.head >= request_.heads)
            refuse(fmt::format("expected a head below {}, got {}", request_.heads, request_.head));
        if (request_.batch < 0 || request_.batch > 1 << 16)
            refuse(fmt::format("expected a batch element from 0 to 65536, got {}", request_.batch));
        if (request_.key_heads < 1 || request_.heads % request_.key_heads != 0)
            refuse(fmt::format("expected heads that are a multiple of the key heads, got {} and {}", request_.heads,
                               request_.key_heads));
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
                refuse(fmt::format("expected random(seed) for the input {}, got \"{}\"", input.name, given.text));
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

    void fill_from(drawn_input& input, const input_declaration& d, const stored_tensor& stored) {
        const bool alike = stored.element == input.element ||
                           (stored.element == element_type::u8 && input.element == element_type::boolean) ||
                           (stored.element == element_type::boolean && input.element == element_type::u8) ||
                           d.element == element_type::any;
        if (!alike)
            refuse(fmt::format("expected the input {} with elements of type {}, got {}", input.name,
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
                refuse(fmt::format("expected the input {} with {} along its axis {}, got {}", input.name, wanted[axis],
                                   d.axes[axis].name, stored.shape[axis]));
        }
        input.element = stored.element == element_type::bf16 || stored.element == element_type::f16 ? stored.element
                                                                                                    : input.element;
        make_dense(input);
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
            // Documents, the first ones shorter; then what is inside of them, then what takes turns.
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

    /// What the drawn batch element and head see of it.
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

    static double value_at(const drawn_input& input, std::size_t at) {
        const auto read = [&](auto x) {
            std::memcpy(&x, &input.bytes[at * sizeof x], sizeof x);
            return x;
        };
        switch (input.element) {
            case element_type::i32: return read(std::int32_t{});
            case element_type::i8: return read(std::int8_t{});
            case element_type::u8:
            case element_type::boolean: return read(std::uint8_t{});
            case element_type::f16: return static_cast<float>(read(float16{}));
            case element_type::bf16: return static_cast<float>(read(bfloat16{}));
            case element_type::f8_e4m3: return static_cast<float>(read(float8_e4m3{}));
            case element_type::f8_e5m2: return static_cast<float>(read(float8_e5m2{}));
            case element_type::f32:
            case element_type::any: break;
        }
        return read(float{});
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

}  // namespace attune::generators
