#include "emit/c_header.hpp"

#include "base/formatting.hpp"
#include "base/whole_file.hpp"

#include <attune/ir/gradient_outputs.hpp>
#include <attune/ir/own_axes.hpp>
#include <attune/ir/stores.hpp>
#include <attune/runtime/detail/call.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <stdexcept>

namespace attune::generators::inline emit {
namespace {

/// An identifier that C and C++ both take.
std::string identifier(std::string_view name) {
    static const std::set<std::string_view> words = {
        "and",      "asm",       "auto",    "bool",     "break",    "case",    "catch",    "char",      "class",
        "const",    "continue",  "default", "delete",   "do",       "double",  "else",     "enum",      "export",
        "extern",   "false",     "float",   "for",      "friend",   "goto",    "if",       "inline",    "int",
        "long",     "namespace", "new",     "not",      "operator", "or",      "private",  "protected", "public",
        "register", "restrict",  "return",  "short",    "signed",   "sizeof",  "static",   "struct",    "switch",
        "template", "this",      "throw",   "true",     "try",      "typedef", "typename", "union",     "unsigned",
        "using",    "virtual",   "void",    "volatile", "while",    "xor"};
    return words.contains(name) ? std::string(name) + "_" : std::string(name);
}

std::string joined(const std::vector<std::string>& list, std::string_view separator) {
    return fmt::format("{}", fmt::join(list, separator));
}

void add_once(std::vector<std::string>& list, std::string part) {
    if (std::find(list.begin(), list.end(), part) == list.end()) list.push_back(std::move(part));
}

std::string axes_of(const input_declaration& d) {
    std::vector<std::string> axes;
    for (int i = 0; i < d.rank; ++i) axes.emplace_back(d.axes[static_cast<std::size_t>(i)].name);
    return joined(axes, ", ");
}

std::string axes_of_output(const graph_ir& graph, const output_declaration& d) {
    if (const int input = input_of_gradient(graph, d); input >= 0)
        return axes_of(graph.inputs[static_cast<std::size_t>(input)]);
    std::vector<std::string> axes;
    const instruction& of = graph.nodes[d.node];
    for (const axis_kind axis : detail::axes_of_output(of))
        axes.emplace_back(axis == axis_kind::free ? name_of_own_axis(graph, d, axes.size()) : name_of(axis));
    return joined(axes, ", ");
}

/// The element types and depths that the kernels of a variant accept if its formula leaves them open.
struct choices {
    std::vector<std::string> types, depths;

    choices(const variant& v, std::span<const listed_kernel> kernels) {
        for (const listed_kernel& k : kernels) {
            if (k.of != &v) continue;
            const element_types& t = k.request.types;
            const bool same = t.query == t.key && t.key == t.value && t.value == t.output;
            add_once(types, same ? std::string(name_of(t.query))
                                 : fmt::format("q:{},k:{},v:{},out:{}", name_of(t.query), name_of(t.key),
                                               name_of(t.value), name_of(t.output)));
            add_once(depths, fmt::format("{}x{}", k.request.depths.depth, k.request.depths.value_depth));
        }
    }
};

struct field {
    std::string type, name, comment, pass;
    bool optional = false;
};

std::vector<field> fields_of(const variant& v) {
    std::vector<field> fields;
    const auto tensor = [&](std::string_view name, std::string comment, bool optional = false) {
        const std::string field = identifier(name);
        fields.push_back({"attune_tensor", field, std::move(comment),
                          fmt::format("attune_tensor_argument(\"{}\", given->{})", name, field), optional});
    };
    for (std::size_t i = 0; i < v.graph.inputs.size(); ++i) {
        const input_declaration& d = v.graph.inputs[i];
        const std::string name = identifier(d.name);
        if (!d.is_scalar)
            tensor(d.name,
                   fmt::format("{}{} ({})", is_stored(v.graph, i) ? "read and written: " : "",
                               d.element == element_type::any ? "element type of the kernel" : name_of(d.element),
                               axes_of(d)));
        else if (d.element == element_type::f32)
            fields.push_back(
                {"float", name, "", fmt::format("attune_real_argument(\"{}\", (double)given->{})", d.name, name)});
        else if (d.element == element_type::f64)
            fields.push_back(
                {"double", name, "", fmt::format("attune_real_argument(\"{}\", given->{})", d.name, name)});
        else if (d.element == element_type::boolean)
            fields.push_back(
                {"int32_t", name, "0 or 1", fmt::format("attune_boolean_argument(\"{}\", given->{})", d.name, name)});
        else
            fields.push_back(
                {"int32_t", name, "", fmt::format("attune_integer_argument(\"{}\", given->{})", d.name, name)});
    }
    tensor("kv_lengths", "i32 (batch), optional: all zeros stands for all keys", true);
    if (detail::takes_packed_queries(v.graph))
        tensor("cu_seqlens_q", "i32 (batch + 1), optional: where each sequence's queries begin, where they are packed",
               true);
    for (const output_declaration& d : v.graph.outputs) {
        const std::string_view element = has_open_element(v.graph, d) ? "element type of the kernel" : "f32";
        tensor(d.name, fmt::format("written: {} ({})", element, axes_of_output(v.graph, d)));
    }
    return fields;
}

std::string declarations(const variant& v, std::span<const listed_kernel> kernels) {
    const std::string name = c_name(v.name);
    const choices chosen(v, kernels);
    std::string text = fmt::format("\n/// {}\n///\n", v.name);
    for (std::string_view rest = v.graph.text; !rest.empty();) {
        const std::string_view line = rest.substr(0, rest.find('\n'));
        text += fmt::format("///     {}\n", line);
        rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    }
    text += fmt::format("///\n/// Kernels of {}; depth x value depth {}.\nconst attune_variant* {}_variant(void);\n",
                        joined(chosen.types, " or "), joined(chosen.depths, " or "), name);
    text += fmt::format("\ntypedef struct {}_arguments {{\n", name);
    const std::vector<field> fields = fields_of(v);
    for (const field& f : fields)
        text += fmt::format("    {} {};{}\n", f.type, f.name, f.comment.empty() ? "" : "  ///< " + f.comment);
    text += fmt::format(
        "}} {0}_arguments;\n\n/// attune_run with the arguments by their names in a struct, which is to be all zeros "
        "before it is filled.\n"
        "static inline attune_status {0}_run(const {0}_arguments* given, const attune_options* options) {{\n"
        "    attune_argument list[{1}];\n    size_t count = 0;\n"
        "    static const attune_argument* none; /* null, of which no compiler warns, in C or C++ */\n"
        "    if (!given) return attune_run({0}_variant(), none, {1}, options);\n",
        name, fields.size());
    for (const field& f : fields)
        text += f.optional ? fmt::format("    if (attune_is_given(&given->{0})) list[count++] = {1};\n", f.name, f.pass)
                           : fmt::format("    list[count++] = {};\n", f.pass);
    return text + fmt::format("    return attune_run({}_variant(), list, count, options);\n}}\n", name);
}

}  // namespace

std::string c_name(std::string_view variant) {
    std::string name;
    for (const char c : variant) {
        const bool keeps = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (keeps)
            name += c;
        else if (!name.empty() && name.back() != '_')
            name += '_';
    }
    return name;
}

void emit_c_header(std::span<const variant> variants, std::span<const listed_kernel> kernels, const std::string& file) {
    std::set<std::string> names;
    for (const variant& v : variants)
        if (!names.insert(c_name(v.name)).second)
            throw std::runtime_error(
                fmt::format("expected variants of different names in C, got {0} twice, also for {1}; try a library of "
                            "its own for {1}",
                            c_name(v.name), v.name));
    const std::string guard = fmt::format("ATTUNE_KERNELS_{}_H", c_name(std::filesystem::path(file).stem().string()));
    std::string text = fmt::format(
        "#ifndef {0}\n#define {0}\n/// Written by `emit --c-header`: the variants of this library for C. attune/c.h "
        "says how they are called.\n#include <attune/c.h>\n\n"
        "#ifdef __cplusplus\nextern \"C\" {{\n#endif\n",
        guard);
    for (const variant& v : variants) text += declarations(v, kernels);
    text += "\n#ifdef __cplusplus\n}\n#endif\n#endif\n";
    write_whole(file, text);
}

std::string c_handles(std::span<const variant> variants) {
    std::string text = "\n#include <attune/runtime/detail/c_variant.hpp>\n";
    for (const variant& v : variants)
        text += fmt::format(
            "\nextern \"C\" const attune_variant* {0}_variant();\n"
            "extern \"C\" const attune_variant* {0}_variant() {{\n"
            "    static constexpr attune_variant variant{{ATTUNE_C_VERSION, &attune::detail::this_runtime, "
            "&attune::kernels_of<{1}, {2}ull>}};\n"
            "    return &variant;\n}}\n",
            c_name(v.name), v.name, v.graph.fingerprint);
    return text;
}

}  // namespace attune::generators::inline emit
