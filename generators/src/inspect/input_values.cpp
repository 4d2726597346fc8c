#include "inspect/input_values.hpp"

#include "base/formatting.hpp"

#include <attune/ir/element.hpp>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace attune::generators::inline inspect {
namespace {

const input_declaration kv_lengths{"kv_lengths", element_type::i32, false, 1, {{{axis_kind::batch, "batch"}}}};

}  // namespace

void refuse_input(const std::string& sentence) { throw std::runtime_error(sentence); }

std::vector<input_declaration> declarations(const graph_ir& graph) {
    std::vector<input_declaration> all(graph.inputs.begin(), graph.inputs.end());
    all.push_back(kv_lengths);
    return all;
}

namespace {

bool is_file(const std::string& text) {
    return text.ends_with(".safetensors") || text.find(".safetensors:") != text.npos;
}

}  // namespace

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
            refuse_input(
                "expected an input as name=value, name=v1,v2,..., name=random(seed) or name=FILE.safetensors, got \"" +
                text + "\"");
        if (std::none_of(declared.begin(), declared.end(), [&](const input_declaration& d) { return d.name == name; }))
            refuse_input("expected the name of an input of this variant, got \"" + name + "\"; try one of " + known);
        given_input one{value, {}, {}};
        if (is_file(value)) {
            const auto colon = value.find(".safetensors:");
            const std::string path = colon == value.npos ? value : value.substr(0, colon + 12),
                              inside = colon == value.npos ? name : value.substr(colon + 13);
            const tensor_file file = read_tensor_file(path);
            const auto tensor = file.tensors.find(inside);
            if (tensor == file.tensors.end())
                refuse_input("expected a tensor \"" + inside + "\" in " + path + ", got none");
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
        refuse_input(fmt::format("expected numbers for the input {}, got \"{}\"", name, text));
    return value;
}

std::vector<double> list_from(std::string_view text, const std::string& name) {
    std::vector<double> values;
    while (!text.empty()) {
        const std::string_view part = text.substr(0, text.find(','));
        text.remove_prefix(std::min(text.size(), part.size() + 1));
        const auto times = part.find('*');
        const double count = times == part.npos ? 1 : number_from(part.substr(times + 1), name);
        if (!(count >= 1 && count <= (1 << 24)))
            refuse_input(
                fmt::format("expected value*count with a count from 1 on for the input {}, got \"{}\"", name, part));
        values.insert(values.end(), static_cast<std::size_t>(count), number_from(part.substr(0, times), name));
    }
    return values;
}

namespace {

std::uint16_t half_from(float x) {  // rounds toward zero: pictures only
    const auto bits = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude >= 0x47800000) return static_cast<std::uint16_t>(sign | 0x7c00);
    if (magnitude < 0x38800000) return static_cast<std::uint16_t>(sign);
    return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000) >> 13));
}

}  // namespace

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
        case element_type::i64: return store(static_cast<std::int64_t>(whole(INT32_MIN, INT32_MAX)));
        case element_type::i16: return store(static_cast<std::int16_t>(whole(-32768, 32767)));
        case element_type::f8_e4m3: return store(float8_e4m3(static_cast<float>(value)).bits);
        case element_type::f8_e5m2: return store(float8_e5m2(static_cast<float>(value)).bits);
        case element_type::boolean: return store(static_cast<std::uint8_t>(value != 0));
        default: return store(static_cast<float>(value));
    }
}

void make_dense(drawn_input& input) {
    std::size_t count = 1;
    input.strides.assign(input.shape.size(), 0);
    for (std::size_t axis = input.shape.size(); axis-- > 0;) {
        input.strides[axis] = static_cast<int>(count);
        count *= static_cast<std::size_t>(input.shape[axis]);
        if (count > (std::size_t{1} << 26))
            refuse_input(
                fmt::format("the input {} would have more than 2^26 elements; draw a smaller piece", input.name));
    }
    input.bytes.assign(count * static_cast<std::size_t>(bytes_of(input.element)), std::byte{});
}

double value_at(const drawn_input& input, std::size_t at) {
    const auto read = [&](auto x) {
        std::memcpy(&x, &input.bytes[at * sizeof x], sizeof x);
        return x;
    };
    switch (input.element) {
        case element_type::i32: return read(std::int32_t{});
        case element_type::i8: return read(std::int8_t{});
        case element_type::i64: return static_cast<double>(read(std::int64_t{}));
        case element_type::i16: return read(std::int16_t{});
        case element_type::u8:
        case element_type::boolean: return read(std::uint8_t{});
        case element_type::f16: return static_cast<float>(read(float16{}));
        case element_type::bf16: return static_cast<float>(read(bfloat16{}));
        case element_type::f8_e4m3: return static_cast<float>(read(float8_e4m3{}));
        case element_type::f8_e5m2: return static_cast<float>(read(float8_e5m2{}));
        case element_type::f32:
        case element_type::f64:
        case element_type::any: break;
    }
    return read(float{});
}

std::string number_text(double x) { return fmt::format("{:.6g}", x); }

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

}  // namespace attune::generators::inline inspect
