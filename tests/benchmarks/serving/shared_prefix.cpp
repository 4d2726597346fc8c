// Sequences that begin alike: the keys they share are read once, for the queries of all, and each merges what that left
// with its own keys. Timed beside one call over caches that hold the shared keys once a sequence, interleaved.
//
//     attune_shared_prefix --sequences 16 --shared 8192 --own 512
#include "caches.hpp"
#include "memory.hpp"

#include "commands/schedule_option.hpp"
#include "tuner/jit_kernel.hpp"

#include <attune/runtime.hpp>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>

namespace {

using attune::element_type;
using bench::memory;

/// A kernel for decode at the best level of this machine.
struct compiled {
    compiled(const std::string& name, const attune::graph_ir& graph, const std::string& dtypes, std::int64_t depth,
             const std::string& cut = "")
        : of{name, graph} {
        std::string level;
        for (const attune::generators::level& each : attune::generators::levels())
            if (level.empty() && attune::runs(each.name)) level = each.name;
        auto list = attune::generators::kernels_of(
            {&of, 1},
            {.targets = {level}, .dtypes = {dtypes}, .depths = {std::to_string(depth)}, .shapes = {"decode"}});
        list[0].request.schedule = attune::generators::schedule_with(list[0].request, cut);
        kernel = std::make_unique<attune::generators::jit_kernel>(list[0]);
    }
    void operator()(std::initializer_list<std::pair<const char*, attune::tensor>> tensors) const {
        std::vector<attune::detail::named_argument> given;
        for (const auto& [name, view] : tensors) given.push_back({.name = name, .view = view});
        attune::detail::call(kernel->table(), given, {});
    }
    attune::generators::variant of;
    std::unique_ptr<attune::generators::jit_kernel> kernel;
};

double seconds_of(const std::function<void()>& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> of) {
    std::sort(of.begin(), of.end());
    return of[of.size() / 2];
}

struct question {
    std::int64_t sequences = 16, shared = 8192, own = 512, heads = 32, key_heads = 8, depth = 128;
    std::string dtype = "f32", cut;
    int repeats = 9;
    bool json = false;
};

struct shape_of_join {
    std::int64_t sequences, key_heads, shared, own;
    std::size_t row;  ///< bytes
};

/// The keys or values of a prefix and then each sequence's own.
void join(memory& all, const memory& one, const memory& other, const shape_of_join& s) {
    const auto rows = [&](std::int64_t count) { return static_cast<std::size_t>(count) * s.row; };
    for (std::int64_t b = 0; b < s.sequences; ++b)
        for (std::int64_t h = 0; h < s.key_heads; ++h) {
            auto to = all.as<std::byte>().subspan(rows((b * s.key_heads + h) * (s.shared + s.own)));
            const auto first = one.bytes().subspan(rows(h * s.shared), rows(s.shared)),
                       second = other.bytes().subspan(rows((b * s.key_heads + h) * s.own), rows(s.own));
            std::copy(second.begin(), second.end(), std::copy(first.begin(), first.end(), to.begin()));
        }
}

/// One sequence of several.
attune::tensor of(memory& all, std::int64_t b) {
    const attune::tensor every = all.view();
    std::vector<std::int64_t> shape(every.shape().begin(), every.shape().end());
    shape[0] = 1;
    auto* const data = static_cast<std::byte*>(every.mutable_data()) +
                       b * every.stride(0) * static_cast<std::int64_t>(attune::bytes_of(every.type()));
    return attune::tensor(every.type(), static_cast<void*>(data), shape);
}

void measure(const question& asked) {
    const auto& [sequences, shared, own, heads, key_heads, depth, dtype, cut, repeats, json] = asked;
    using attune::dsl::ir_of;
    const std::string types = fmt::format("q:f32,k:{0},v:{0},out:f32", dtype);
    const compiled whole("bench::whole", ir_of<bench::caches::contiguous>, types, depth),
        prefix("bench::prefix", ir_of<bench::caches::prefix::shared>, types, depth, cut),
        rest("bench::rest", ir_of<bench::caches::prefix::rest>, types, depth);
    const element_type type = dtype == "f32" ? element_type::f32 : element_type::bf16;
    const auto zeros = [](std::vector<std::int64_t> shape) { return memory(element_type::f32, std::move(shape)); };
    memory q(element_type::f32, {sequences, heads, 1, depth}), shared_k(type, {1, key_heads, shared, depth}),
        shared_v(type, {1, key_heads, shared, depth}), own_k(type, {sequences, key_heads, own, depth}),
        own_v(type, {sequences, key_heads, own, depth}), all_k(type, {sequences, key_heads, shared + own, depth}),
        all_v(type, {sequences, key_heads, shared + own, depth});
    memory out = zeros({sequences, heads, 1, depth}), expected = zeros({sequences, heads, 1, depth}),
           // (1, head, sequence, depth): the sequences are the queries of one call
        prefix_out = zeros({1, heads, sequences, depth}), prefix_lse = zeros({1, heads, sequences});
    const shape_of_join shape{sequences, key_heads, shared, own,
                              static_cast<std::size_t>(depth) * attune::bytes_of(type)};
    join(all_k, shared_k, own_k, shape), join(all_v, shared_v, own_v, shape);

    const auto once_a_sequence = [&] {
        whole({{"q", q.view()}, {"k", all_k.view()}, {"v", all_v.view()}, {"out", expected.view()}});
    };
    const auto a_call_each = [&] {
        for (std::int64_t b = 0; b < sequences; ++b)
            whole({{"q", of(q, b)}, {"k", of(all_k, b)}, {"v", of(all_v, b)}, {"out", of(expected, b)}});
    };
    const auto once = [&] {
        prefix({{"q", q.view().swapped(0, 2)},
                {"k", shared_k.view()},
                {"v", shared_v.view()},
                {"out", prefix_out.view()},
                {"lse", prefix_lse.view()}});
        const attune::tensor lse(element_type::f32, prefix_lse.view().mutable_data(),
                                 std::vector{sequences, heads, std::int64_t{1}},
                                 std::vector{std::int64_t{1}, sequences, std::int64_t{1}});
        rest({{"q", q.view()},
              {"k", own_k.view()},
              {"v", own_v.view()},
              {"prefix_out", prefix_out.view().swapped(0, 2)},
              {"prefix_lse", lse},
              {"out", out.view()}});
    };
    std::vector<double> shared_times, one_call_times, call_each_times;
    for (int i = -1; i < repeats; ++i) {
        const double one = seconds_of(once), other = seconds_of(once_a_sequence), third = seconds_of(a_call_each);
        if (i >= 0) shared_times.push_back(one), one_call_times.push_back(other), call_each_times.push_back(third);
    }
    double difference = 0;
    for (std::size_t i = 0; i < out.as<float>().size(); ++i)
        difference = std::max(difference, std::abs(double(out.as<float>()[i]) - double(expected.as<float>()[i])));
    const double ms = median(shared_times) * 1e3, one_call = median(one_call_times) * 1e3,
                 call_each = median(call_each_times) * 1e3;
    if (json)
        fmt::print("{}\n", nlohmann::ordered_json{{"sequences", sequences},
                                                  {"shared", shared},
                                                  {"own", own},
                                                  {"dtype", dtype},
                                                  {"threads", attune::threads()},
                                                  {"ms", ms},
                                                  {"one_call_ms", one_call},
                                                  {"call_each_ms", call_each},
                                                  {"largest_difference", difference}}
                               .dump());
    else
        fmt::print(
            "{} sequences, {} shared keys and {} of their own, {}: {:.3f} ms; shared keys read once a sequence: in one "
            "call {:.3f} ms ({:.2f} x), in a call each {:.3f} ms ({:.2f} x); largest difference {:.1e}\n",
            sequences, shared, own, dtype, ms, one_call, one_call / ms, call_each, call_each / ms, difference);
}

}  // namespace

int main(int argc, char** argv) {
    question asked;
    auto& [sequences, shared, own, heads, key_heads, depth, dtype, cut, repeats, json] = asked;
    CLI::App app{
        "Times one query of each of several sequences that share a prefix: its keys read once for all of them and "
        "merged with each sequence's own, beside one call over caches that hold the prefix once a sequence."};
    app.add_option("--sequences", sequences)->capture_default_str();
    app.add_option("--shared", shared, "keys that all have in common")->capture_default_str();
    app.add_option("--own", own, "keys of each beside them")->capture_default_str();
    app.add_option("--heads", heads)->capture_default_str();
    app.add_option("--key-heads", key_heads)->capture_default_str();
    app.add_option("--depth", depth)->capture_default_str();
    app.add_option("--dtype", dtype, "of keys and values: f32 or bf16")
        ->check(CLI::IsMember({"f32", "bf16"}))
        ->capture_default_str();
    app.add_option("--schedule", cut, "another schedule for the shared keys: a JSON object with some of its fields");
    app.add_option("--repeats", repeats)->capture_default_str();
    app.add_flag("--json", json);
    CLI11_PARSE(app, argc, argv);
    measure(asked);
}
