// Tensors beyond 2^31 - 1 elements: a call is made of parts, of batch elements or of heads, wherever these lie apart.
#include "fake_variant.hpp"
#include "index_call.hpp"

#include <attune/runtime/detail/call.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

using attune::tensor;
using attune::detail::named_argument;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Room for tensors of 16 billion f32, of which only what is touched takes memory.
class wide_room {
public:
    wide_room()
        : memory_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
        if (memory_ == MAP_FAILED) std::abort();
    }
    ~wide_room() { munmap(memory_, bytes); }
    wide_room(const wide_room&) = delete;

    /// A copy of a tensor of four axes that lies `batch` and `head` elements apart.
    tensor spread(const tensor& dense, std::int64_t batch, std::int64_t head) {
        auto* const data = static_cast<float*>(memory_);
        const auto* const from = static_cast<const float*>(dense.data());
        const std::int64_t row = dense.extent(2) * dense.extent(3);
        for (std::int64_t b = 0; b < dense.extent(0); ++b)
            for (std::int64_t h = 0; h < dense.extent(1); ++h)
                std::copy_n(from + (b * dense.extent(1) + h) * row, row, data + b * batch + h * head);
        return {data, dense.shape(), std::initializer_list<std::int64_t>{batch, head, dense.extent(3), 1}};
    }
    void gather(const tensor& wide, std::vector<float>& dense) const {
        const auto* const data = static_cast<const float*>(memory_);
        const std::int64_t row = wide.extent(2) * wide.extent(3);
        for (std::int64_t b = 0; b < wide.extent(0); ++b)
            for (std::int64_t h = 0; h < wide.extent(1); ++h)
                std::copy_n(data + b * wide.stride(0) + h * wide.stride(1), row,
                            dense.begin() + (b * wide.extent(1) + h) * row);
    }

private:
    static constexpr std::size_t bytes = std::size_t{1} << 36;
    void* memory_;
};

named_argument& named(std::vector<named_argument>& all, std::string_view name) {
    return *std::ranges::find(all, name, &named_argument::name);
}

constexpr std::int64_t far = std::int64_t{1} << 31;

}  // namespace

TEST_CASE("a cache whose batch elements or heads lie beyond 2^31 elements apart is read where it lies") {
    wide_room room, of_values;
    struct row {
        std::int64_t batch, head;
        int calls;  ///< of the kernel
    };
    for (const auto& [batch, head, calls] : {row{far - 1, 56, 2},
                                             {far + 9, 56, 2},
                                             {5 * far, 70, 2},
                                             {200, far, 4},
                                             {3 * far, far, 4},
                                             {100, far - 1, 4},
                                             {112, 56, 1}})
        for (const bool with_lengths : {false, true})
            for (const bool prepared : {false, true}) {
                fake::call c;
                if (with_lengths) c.lengths = {3, 7};
                auto all = c.arguments();
                if (with_lengths)
                    all.push_back({.name = "kv_lengths",
                                   .is = named_argument::form::view,
                                   .view = tensor(c.lengths.data(), {2})});
                named(all, "k").view = room.spread(c.K(), batch, head);
                named(all, "v").view = of_values.spread(c.V(), head, batch);  // and the other way round
                INFO("strides " << batch << " and " << head);
                fake::reset();
                if (prepared)
                    attune::detail::call(*attune::detail::prepare(fake::kernels(), all, {}));
                else
                    attune::detail::call(fake::kernels(), all, {});
                CHECK(fake::seen.calls >= calls);
                c.expect_right_results();
            }
}

TEST_CASE("queries and outputs may lie as far apart") {
    wide_room room, of_outputs;
    fake::call c;
    auto all = c.arguments();
    named(all, "q").view = room.spread(c.Q(), 4 * far, far);
    named(all, "out").view = of_outputs.spread(c.O(), 4 * far, far + 3);
    attune::detail::call(fake::kernels(), all, {});
    of_outputs.gather(named(all, "out").view, c.out);
    c.expect_right_results();
}

TEST_CASE("what is written has to lie apart in the whole call") {
    wide_room room;
    fake::call c;
    auto all = c.arguments();
    named(all, "k").view = room.spread(c.K(), far, 56);
    named(all, "out").view = tensor(c.out.data(), {2, 4, 5, 4}, {0, 20, 4, 1});
    CHECK(fake::refusal(all).starts_with("attune: expected elements of out at distinct addresses"));
}

TEST_CASE("explain and blocks say of a call in parts what they say of the same call in one piece, and how many parts") {
    wide_room room;
    for (const auto& [batch, head, parts] : {std::array<std::int64_t, 3>{far, 56, 2}, {200, far, 4}})
        for (const bool with_outputs : {false, true}) {
            fake::call c;
            auto all = c.arguments();
            if (!with_outputs)
                std::erase_if(all, [](const auto& each) { return each.name == "out" || each.name == "lse"; });
            const attune::explanation whole = attune::detail::explain(fake::kernels(), all, {});
            const attune::block_map map = attune::detail::blocks(fake::kernels(), all, {});
            named(all, "k").view = room.spread(c.K(), batch, head);
            const attune::explanation said = attune::detail::explain(fake::kernels(), all, {});
            CHECK(said.calls == parts);
            CHECK(said.batches == 1);
            CHECK(said.heads == (parts == 2 ? 4 : 2));
            CHECK(said.blocks == whole.blocks);
            CHECK(said.blocks_visited == whole.blocks_visited);
            for (std::size_t i = 0; i < whole.outputs.size(); ++i)
                CHECK(said.outputs[i].shape == whole.outputs[i].shape);
            for (std::size_t i = 0; i < whole.inputs.size(); ++i) CHECK(said.inputs[i].shape == whole.inputs[i].shape);
            CHECK_THAT(said.text(),
                       ContainsSubstring("\ncalls     " + std::to_string(parts) + " on some batch elements"));
            CHECK_THAT(said.json(), ContainsSubstring("\"calls\": " + std::to_string(parts)));
            CHECK_THAT(whole.text(), !ContainsSubstring("\ncalls"));
            const attune::block_map made = attune::detail::blocks(fake::kernels(), all, {});
            CHECK(made.batches == map.batches);
            CHECK(made.heads == map.heads);
            CHECK(made.blocks == map.blocks);
        }
}

TEST_CASE("what is written has all batch elements in the whole call") {
    wide_room room;
    fake::call c;
    auto all = c.arguments();
    named(all, "k").view = room.spread(c.K(), far, 56);
    named(all, "out").view = tensor(c.out.data(), {1, 4, 5, 4});
    named(all, "lse").view = tensor(c.lse.data(), {1, 4, 5});
    CHECK(fake::refusal(all).starts_with("attune: expected "));
    CHECK(c.untouched());
}

namespace one_key_head {
using namespace attune::dsl;
inline constexpr auto scores = q * t(k);
inline constexpr auto forward = outputs(out = softmax(scores) * v, lse = log_sum_exp(scores));
inline constexpr auto of_keys = gradient(forward, of(out), wrt(k));
}  // namespace one_key_head

TEST_CASE("heads that write one gradient of keys together are no parts") {
    wide_room room;
    std::vector<float> memory(4096), written(64);
    const std::int64_t keys[] = {1, 1, 7, index_calls::depth}, rows[] = {1, 4, 2, index_calls::value_depth};
    std::vector<named_argument> all;
    const auto add = [&](std::string_view name, const tensor& view) {
        all.push_back({.name = name, .is = named_argument::form::view, .view = view});
    };
    add("q", room.spread(tensor(memory.data(), {1, 4, 2, index_calls::depth}), 4 * far, far));
    add("k", tensor(memory.data(), keys)), add("v", tensor(memory.data(), {1, 1, 7, index_calls::value_depth}));
    add("out", tensor(memory.data(), rows)), add("dout", tensor(memory.data(), rows));
    add("lse", tensor(memory.data(), {1, 4, 2})), add("dk", tensor(written.data(), keys));
    const attune::kernel only = index_calls::call::kernel_of();
    const attune::graph_ir& graph = attune::dsl::ir_of<one_key_head::of_keys>;
    std::erase_if(all, [&](const named_argument& each) {  // those that the gradient has
        return each.name != "dk" &&
               std::ranges::find(graph.inputs, each.name, &attune::input_declaration::name) == graph.inputs.end();
    });
    const int before = index_calls::calls_made;
    CHECK_THROWS_AS(attune::detail::call(index_calls::call::table_of(graph, only), all, {}), attune::error);
    CHECK(index_calls::calls_made == before);
}
