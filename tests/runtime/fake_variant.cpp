#include "fake_variant.hpp"

#include <HalideRuntime.h>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace fake {
namespace {

constexpr attune::graph_ir graph_ir = attune::dsl::ir_of<variant>;
constexpr float poison = -12345.0f;  // in outputs before a call

/// A kernel's argument by its name: Halide's buffers have the innermost dimension first.
struct argv {
    void** at;

    static std::size_t position(std::string_view name) {
        for (std::size_t i = 0; i < graph_ir.inputs.size(); ++i)
            if (graph_ir.inputs[i].name == name) return 1 + i;
        if (name == "kv_lengths") return 1 + graph_ir.inputs.size();
        for (std::size_t i = 0; i < graph_ir.outputs.size(); ++i)
            if (graph_ir.outputs[i].name == name) return 2 + graph_ir.inputs.size() + i;
        return 0;
    }
    void* context() const { return *static_cast<void**>(at[0]); }
    halide_buffer_t& buffer(std::string_view name) const { return *static_cast<halide_buffer_t*>(at[position(name)]); }
    template <class T> T scalar(std::string_view name) const { return *static_cast<T*>(at[position(name)]); }
    template <class T> T& element(std::string_view name, std::initializer_list<int> outermost_first) const {
        halide_buffer_t& b = buffer(name);
        std::ptrdiff_t offset = 0;
        int dimension = b.dimensions;
        for (const int i : outermost_first) {
            --dimension;
            if (i < 0 || i >= b.dim[dimension].extent) std::abort();  // the kernel may rely on logical extents
            offset += std::ptrdiff_t{i} * b.dim[dimension].stride;
        }
        return reinterpret_cast<T*>(b.host)[offset];
    }
};

/// One (batch, head) of attention, as a task.
int task(void* context, int index, std::uint8_t* closure) {
    ++seen.tasks;
    const int running = ++seen.running;
    for (int most = seen.most_running; most < running && !seen.most_running.compare_exchange_weak(most, running);) {
    }
    struct leave {
        ~leave() { --seen.running; }
    } const at_end;
    if (next_mischief == mischief::task_fails && index == 2) {
        halide_error(context, "task 2 was told to fail\n");
        return halide_error_code_generic_error;
    }
    const argv a{reinterpret_cast<void**>(closure)};
    const auto extent = [&](std::string_view name, int dimension) { return a.buffer(name).dim[dimension].extent; };
    const int heads = extent("q", 2), queries = extent("q", 1), keys = extent("k", 1), depth = extent("q", 0),
              value_depth = extent("v", 0);
    const int b = index / heads, h = index % heads, key_head = h / (heads / extent("k", 2));
    const std::size_t bytes = next_mischief == mischief::out_of_memory
                                  ? std::numeric_limits<std::size_t>::max() - 1000
                                  : static_cast<std::size_t>(keys) * sizeof(double);
    auto* const row = static_cast<double*>(halide_malloc(context, bytes));
    if (!row) return halide_error_out_of_memory(context);
    for (int i = 0; i < queries; ++i) {
        double most = -std::numeric_limits<double>::infinity(), sum = 0;
        for (int j = 0; j < keys; ++j) {
            const bool visible =
                j < a.element<std::int32_t>("kv_lengths", {b}) &&
                (j - i <= a.scalar<std::int32_t>("w") || a.element<std::uint8_t>("is_global", {j}) != 0) &&
                j != a.element<std::int32_t>("table", {0});
            double s = 0;
            for (int d = 0; d < depth; ++d)
                s += double{a.element<float>("q", {b, h, i, d})} * a.element<float>("k", {b, key_head, j, d});
            s = s * a.scalar<float>("gain") + a.element<float>("slopes", {h}) * (j - i) +
                a.element<float>("bias", {b, h, i, j});
            row[j] = visible ? s : -std::numeric_limits<double>::infinity();
            most = std::max(most, row[j]);
        }
        for (int j = 0; j < keys; ++j) sum += row[j] = most > -1e300 ? std::exp(row[j] - most) : 0;
        for (int d = 0; d < value_depth; ++d) {
            double o = 0;
            for (int j = 0; j < keys; ++j) o += row[j] * a.element<float>("v", {b, key_head, j, d});
            a.element<float>("out", {b, h, i, d}) = static_cast<float>(sum > 0 ? o / sum : 0);
        }
        a.element<float>("lse", {b, h, i}) =
            static_cast<float>(sum > 0 ? most + std::log(sum) : -std::numeric_limits<double>::infinity());
    }
    halide_free(context, row);
    return 0;
}

int kernel(void** arguments) {
    ++seen.calls;
    const argv a{arguments};
    if (next_mischief == mischief::unknown_code) return -77;
    const halide_buffer_t& q = a.buffer("q");
    return halide_do_par_for(a.context(), task, 0, q.dim[2].extent * q.dim[3].extent,
                             reinterpret_cast<std::uint8_t*>(arguments));
}

/// Blocks of 2 x 4; those above the diagonal are skipped, those of query tile 2 are wholly visible.
int blocks(void** arguments) {
    const argv a{arguments};
    const auto& map = *static_cast<halide_buffer_t*>(arguments[2 + graph_ir.inputs.size()]);
    const std::int64_t rows = std::int64_t{map.dim[1].extent} * map.dim[2].extent * map.dim[3].extent;
    if (map.dimensions != 4 || map.dim[2].extent != a.buffer("q").dim[2].extent) return -1;
    for (std::int64_t row = 0; row < rows; ++row)
        for (int key = 0; key < map.dim[0].extent; ++key) {
            const auto query = static_cast<int>(row % map.dim[1].extent);
            map.host[row * map.dim[1].stride + key] = key * 4 > query * 2 + 1 ? 0 : query == 2 ? 2 : 1;
        }
    return 0;
}

constexpr auto f32 = attune::element_type::f32;
constexpr auto bf16 = attune::element_type::bf16;
const char* const level =
#if defined(__aarch64__)
    "aarch64";
#else
    "x86-64-v2";
#endif
attune::kernel compiled(const char* symbol, const char* target, attune::element_type e, int depth, int value_depth,
                        std::size_t scratch_bytes = 56, const char* schedule = "{}") {
    return {.symbol = symbol,
            .target = target,
            .query = e,
            .key = e,
            .value = e,
            .output = e,
            .depth = depth,
            .value_depth = value_depth,
            .query_block = 2,
            .key_block = 4,
            .scratch_bytes = scratch_bytes,
            .schedule = schedule,
            .call = kernel,
            .blocks = blocks,
            .depths_of_pair = depth + value_depth};
}
const attune::kernel all[] = {
    compiled("attune_fake_f32_d8x4_opencl", "opencl", f32, 8, 4, 64),  // never runs here
    compiled("attune_fake_f32_d8x4", level, f32, 8, 4, 56, R"({"query_tile": 2})"),
    compiled("attune_fake_f32_d16x16", level, f32, 16, 16),
    compiled("attune_fake_bf16_d8x4", level, bf16, 8, 4),
};
constexpr attune::graph_notes::condition conditions[] = {
    {"kv_idx - q_idx <= w || is_global(kv_idx)", "skips: the smallest and largest values of each tile decide"},
    {"kv_idx != table(0)", "skips nothing: for this test"}};
constexpr const char* conventions[] = {"alignment: top-left: query i sees no key after i"};
const attune::kernel_table whole{.version = attune::kernel_table_version,
                                 .variant = "fake::variant",
                                 .graph = graph_ir,
                                 .kernels = all,
                                 .notes = {conditions, conventions}};

}  // namespace

const attune::kernel_table& kernels() { return whole; }

void reset() {
    next_mischief = mischief::none;
    seen.calls = seen.tasks = seen.running = seen.most_running = 0;
}

void call::fill() {
    const auto numbers = [](std::vector<float>& to, std::int64_t count, float step) {
        to.resize(static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
        for (std::size_t i = 0; i < to.size(); ++i) to[i] = std::sin(static_cast<float>(i) * step + step);
    };
    numbers(q, batches * heads * queries * depth, 0.7f);
    numbers(k, batches * key_heads * keys * depth, 1.3f);
    numbers(v, batches * key_heads * keys * value_depth, 2.1f);
    numbers(slopes, heads, 0.1f);
    numbers(bias, batches * heads * queries * keys, 0.3f);
    is_global.assign(static_cast<std::size_t>(std::max(queries, keys)), 0);
    if (!is_global.empty()) is_global.back() = 2;  // any value but 0 is true
    out.assign(static_cast<std::size_t>(batches * heads * queries * value_depth), poison);
    lse.assign(static_cast<std::size_t>(batches * heads * queries), poison);
}

attune::tensor call::Q() { return {q.data(), {batches, heads, queries, depth}}; }
attune::tensor call::K() { return {k.data(), {batches, key_heads, keys, depth}}; }
attune::tensor call::V() { return {v.data(), {batches, key_heads, keys, value_depth}}; }
attune::tensor call::S() { return {slopes.data(), {heads}}; }
attune::tensor call::B() { return {bias.data(), {batches, heads, queries, keys}}; }
attune::tensor call::G() { return {is_global.data(), {static_cast<std::int64_t>(is_global.size())}}; }
attune::tensor call::T() { return {table.data(), {static_cast<std::int64_t>(table.size())}}; }
attune::tensor call::O() { return {out.data(), {batches, heads, queries, value_depth}}; }
attune::tensor call::L() { return {lse.data(), {batches, heads, queries}}; }

std::vector<attune::detail::named_argument> call::arguments() {
    using form = attune::detail::named_argument::form;
    const auto view = [](std::string_view name, attune::tensor t) {
        return attune::detail::named_argument{.name = name, .is = form::view, .view = t};
    };
    return {view("q", Q()),
            view("k", K()),
            view("v", V()),
            view("slopes", S()),
            view("bias", B()),
            view("is_global", G()),
            view("table", T()),
            {.name = "w", .is = form::integer, .integer = 1},
            {.name = "gain", .is = form::real, .real = 0.5},
            view("out", O()),
            view("lse", L())};
}

bool call::untouched() const {
    const auto poisoned = [](float x) { return x == poison; };
    return std::all_of(out.begin(), out.end(), poisoned) && std::all_of(lse.begin(), lse.end(), poisoned);
}

void call::expect_right_results() const {
    double worst = 0;
    for (std::int64_t row = 0; row < batches * heads * queries; ++row) {
        const std::int64_t b = row / queries / heads, h = row / queries % heads, i = row % queries,
                           kh = b * key_heads + h / (heads / key_heads);
        const auto at = [](const std::vector<float>& x, std::int64_t i) {
            return static_cast<double>(x[static_cast<std::size_t>(i)]);
        };
        std::vector<double> p(static_cast<std::size_t>(keys));
        double sum = 0;
        for (std::int64_t j = 0; j < keys; ++j) {
            double s = 0;
            for (std::int64_t d = 0; d < depth; ++d) s += at(q, row * depth + d) * at(k, (kh * keys + j) * depth + d);
            const bool used = lengths.empty() || j < lengths[static_cast<std::size_t>(b)];
            const bool visible = used && (j - i <= 1 || is_global[static_cast<std::size_t>(j)]) && j != table[0];
            sum += p[static_cast<std::size_t>(j)] =
                visible ? std::exp(s * 0.5 + at(slopes, h) * static_cast<double>(j - i) + at(bias, row * keys + j)) : 0;
        }
        for (std::int64_t d = 0; d < value_depth; ++d) {
            double o = 0;
            for (std::int64_t j = 0; j < keys; ++j)
                o += sum > 0 ? p[static_cast<std::size_t>(j)] / sum * at(v, (kh * keys + j) * value_depth + d) : 0;
            worst = std::max(worst, std::abs(o - at(out, row * value_depth + d)));
        }
        if (sum > 0)
            worst = std::max(worst, std::abs(std::log(sum) - at(lse, row)));
        else if (at(lse, row) != -std::numeric_limits<double>::infinity())
            worst = 1;
    }
    CHECK(worst < 1e-5);
}

std::string refusal(const std::vector<attune::detail::named_argument>& arguments, const attune::options& how) {
    try {
        attune::detail::call(kernels(), arguments, how);
    } catch (const attune::error& e) {
        return e.what();
    }
    return "";
}

}  // namespace fake

template <> const attune::kernel_table& attune::kernels_of<fake::variant, attune::dsl::fingerprint<fake::variant>>() {
    return fake::kernels();
}
