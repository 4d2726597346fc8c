#include <attune/mpi.h>

#include <attune/mpi.hpp>
#include <attune/mpi/exchange.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "c/support.hpp"
#include "c/tensor.hpp"
#include "mpi/src/c/c_arguments.hpp"

/// The functions of attune/mpi.h. A rank states its refusal in the agreement that begins the call, so no other rank
/// waits for it.
struct attune_mpi_context {
    std::shared_ptr<attune::mpi::context> world;
};

struct attune_mpi_layout {
    attune::mpi::layout plan;
};

namespace attune::mpi {
namespace {

using attune::detail::as_known_here, attune::detail::c_arguments, attune::detail::c_options, attune::detail::fail,
    attune::detail::named_argument, attune::detail::say;

static_assert(static_cast<int>(arrangement::best) == ATTUNE_MPI_BEST &&
              static_cast<int>(arrangement::contiguous) == ATTUNE_MPI_CONTIGUOUS &&
              static_cast<int>(arrangement::zigzag) == ATTUNE_MPI_ZIGZAG &&
              static_cast<int>(arrangement::striped) == ATTUNE_MPI_STRIPED &&
              static_cast<int>(arrangement::documents) == ATTUNE_MPI_DOCUMENTS &&
              static_cast<int>(arrangement::affinity) == ATTUNE_MPI_AFFINITY &&
              static_cast<int>(arrangement::greedy) == ATTUNE_MPI_GREEDY &&
              static_cast<int>(arrangement::ports) == ATTUNE_MPI_PORTS &&
              static_cast<int>(arrangement::own) == ATTUNE_MPI_OWN);

/// Does something that may throw; the sentence is then what attune_error_text returns.
template <class Work> attune_status guarded(Work work) noexcept {
    const std::span<char> text = attune::detail::error_text_here();
    return attune::detail::guarded(text.data(), text.size(), [&] {
        try {
            work();
        } catch (const context_failure& failure) {
            throw kernel_failure(failure.what());  // ATTUNE_FAILED
        }
    });
}

context& world_of(attune_mpi_context* context) {
    if (!context) fail("a context", "null", "attune_mpi_make_context");
    return *context->world;
}

const layout& plan_of(const attune_mpi_layout* layout) {
    if (!layout) fail("a layout", "null", "attune_mpi_plan");
    return layout->plan;
}

template <class Handle> void check_place(Handle* const* place, std::string_view of, std::string_view type) {
    if (!place) fail(say("a place for the ", of), "null", say("the address of an ", type, "*"));
}

/// This rank's arguments, made before the agreement of `call`. If they cannot be made, the rank tells the others in it.
template <class Make> auto of_arguments(context& world, const std::string& call, Make&& make) {
    try {
        return make();
    } catch (const std::exception&) {
        world.agree(call, [](statement&) { throw; });
        throw;
    }
}

/// `given` is not zero.
double or_default(double given, double usual) { return given != 0 ? given : usual; }

options from_c(const attune_mpi_options* given) {
    options how;
    if (!given) return how;
    const attune_mpi_options known = as_known_here(*given, sizeof(attune_mpi_options), "options", "attune_mpi_options");
    attune::detail::check_reserved(known.reserved, "attune_mpi_options");
    how.timeout = known.timeout == INFINITY ? 0 : or_default(known.timeout, how.timeout);
    how.grace = or_default(known.grace, how.grace);
    if (!(how.timeout >= 0) || !(how.grace >= 0))
        fail("a timeout and a grace of at least 0 s in attune_mpi_options",
             say(exactly(known.timeout), " and ", exactly(known.grace)), "INFINITY for a timeout without end");
    return how;
}

planning from_c(const attune_mpi_planning& given) {
    planning what;
    const auto take = [](std::int64_t& to, std::int64_t from) { to = from != 0 ? from : to; };
    take(what.batches, given.batches), take(what.heads, given.heads), take(what.key_heads, given.key_heads);
    what.tokens = given.tokens, what.queries = given.queries;
    what.depth = given.depth, what.value_depth = given.value_depth, what.stages = given.stages;
    what.head_parts = given.head_parts;
    if (given.element != 0) what.element = attune::detail::element_from("q, k and v", given.element);
    if (given.layout < ATTUNE_MPI_BEST || given.layout > ATTUNE_MPI_OWN)
        fail(say("a layout from ", int{ATTUNE_MPI_BEST}, " to ", int{ATTUNE_MPI_OWN}), say(given.layout),
             "ATTUNE_MPI_BEST");
    what.layout = static_cast<arrangement>(given.layout);
    rates& speed = what.speed;
    speed = {or_default(given.flops, speed.flops), or_default(given.bytes, speed.bytes),
             or_default(given.latency, speed.latency), or_default(given.merged, speed.merged),
             or_default(given.read, speed.read)};
    if (!given.positions && given.position_count > 0)
        fail(say(given.position_count, " positions"), "null", "an array of them");
    what.positions = {given.positions, given.position_count};
    if (given.weights) what.weights = {given.weights, given.variant_count};
    return what;
}

attune_mpi_planning known_of(const attune_mpi_planning* given) {
    if (!given) fail("what a plan is for", "null", "the address of an attune_mpi_planning");
    const attune_mpi_planning known =
        as_known_here(*given, sizeof(attune_mpi_planning), "a planning", "attune_mpi_planning");
    attune::detail::check_reserved(known.reserved, "attune_mpi_planning");
    if (!known.variants || known.variant_count == 0)
        fail("variants to plan for", known.variants ? "0" : "null", "an array of <variant>_variant() of shards");
    return known;
}

/// The parts of a plan.
struct question {
    question(const attune_mpi_planning& what, const c_arguments& given, const attune_options* options)
        : what(from_c(what)),
          graphs(detail::to_plan(std::span(what.variants, what.variant_count), given.view())),
          how(options) {}
    planning what;
    std::vector<detail::graph_to_plan> graphs;
    c_options how;
};

/// The parts of a call; they live as long as a prepared one.
struct call_from_c {
    call_from_c(const kernel_table& table, const c_arguments& given, const attune_options* options)
        : table(table), given(detail::arguments_of_call(table.graph, table.variant, given.view())), how(options) {}
    const kernel_table& table;
    const std::vector<named_argument> given;
    const c_options how;
};

/// "run of my::alibi_shard", as the ranks say that refuse nothing.
std::string name_of_call(std::string_view doing, const attune_variant* variant) {
    try {
        return say(doing, " of ", detail::table_of(variant).variant);
    } catch (const error&) {
        return say(doing, " of a variant");
    }
}

std::unique_ptr<call_from_c> call_of(context& world, std::string_view doing, const attune_mpi_layout* layout,
                                     const attune_variant* variant, const attune_argument* arguments, std::size_t count,
                                     const attune_options* options, const std::function<void()>& check) {
    return of_arguments(world, name_of_call(doing, variant), [&] {
        plan_of(layout), check();
        return std::make_unique<call_from_c>(detail::table_of(variant), c_arguments(arguments, count), options);
    });
}

void put(const traffic& done, attune_mpi_traffic* to) {
    if (to) *to = {done.bytes_sent, done.bytes_received, done.messages_sent, done.messages_received};
}

}  // namespace
}  // namespace attune::mpi

struct attune_mpi_call {
    std::shared_ptr<attune::mpi::context> world;  // outlives what is prepared in it
    std::unique_ptr<attune::mpi::call_from_c> made_of;
    std::shared_ptr<attune::mpi::detail::prepared> prepared;
};

using namespace attune::mpi;

attune_status attune_mpi_make_context(MPI_Comm communicator, const attune_mpi_options* options,
                                      attune_mpi_context** context) noexcept {
    if (context) *context = nullptr;
    return guarded([&] {
        attune::mpi::options how;
        std::string refusal;
        try {
            check_place(context, "context", "attune_mpi_context");
            how = from_c(options);
        } catch (const attune::error& refused) {
            refusal = refused.what();
        }
        auto made = std::make_unique<attune_mpi_context>(
            attune_mpi_context{std::make_shared<attune::mpi::context>(communicator, how)});
        made->world->agree("attune_mpi_make_context", [&](statement&) {
            if (!refusal.empty()) throw attune::error(refusal);
        });
        *context = made.release();
    });
}

void attune_mpi_free_context(attune_mpi_context* context) noexcept { delete context; }

attune_status attune_mpi_plan(attune_mpi_context* context, const attune_mpi_planning* what,
                              const attune_argument* arguments, std::size_t count, const attune_options* options,
                              attune_mpi_layout** layout) noexcept {
    if (layout) *layout = nullptr;
    return guarded([&] {
        auto& world = world_of(context);
        const auto asked = of_arguments(world, "plan", [&] {
            check_place(layout, "layout", "attune_mpi_layout");
            return std::make_unique<question>(known_of(what), c_arguments(arguments, count), options);
        });
        *layout = new attune_mpi_layout{attune::mpi::detail::plan(world, asked->what, asked->graphs, asked->how)};
    });
}

attune_status attune_mpi_positions(const attune_mpi_layout* layout, const std::int32_t** positions,
                                   std::size_t* count) noexcept {
    return guarded([&] {
        const auto own = plan_of(layout).positions();
        if (!positions || !count) fail("places for the positions and their number", "null", "the addresses of both");
        *positions = own.data(), *count = own.size();
    });
}

attune_status attune_mpi_explain(const attune_mpi_layout* layout, char* text, std::size_t capacity,
                                 std::size_t* length) noexcept {
    return guarded([&] { attune::detail::put(plan_of(layout).explain().text(), text, capacity, length); });
}

void attune_mpi_free_layout(attune_mpi_layout* layout) noexcept { delete layout; }

attune_status attune_mpi_run(attune_mpi_context* context, const attune_mpi_layout* layout,
                             const attune_variant* variant, const attune_argument* arguments, std::size_t count,
                             const attune_options* options, attune_mpi_traffic* traffic) noexcept {
    return guarded([&] {
        auto& world = world_of(context);
        const auto call = call_of(world, "run", layout, variant, arguments, count, options, [] {});
        put(attune::mpi::detail::run(world, layout->plan, call->table, call->given, call->how), traffic);
    });
}

attune_status attune_mpi_prepare(attune_mpi_context* context, const attune_mpi_layout* layout,
                                 const attune_variant* variant, const attune_argument* arguments, std::size_t count,
                                 const attune_options* options, attune_mpi_call** call) noexcept {
    if (call) *call = nullptr;
    return guarded([&] {
        auto& world = world_of(context);
        auto made_of = call_of(world, "prepare", layout, variant, arguments, count, options,
                               [&] { check_place(call, "call", "attune_mpi_call"); });
        auto prepared = attune::mpi::detail::prepare(world, layout->plan, made_of->table, made_of->given, made_of->how);
        *call = new attune_mpi_call{context->world, std::move(made_of), std::move(prepared)};
    });
}

attune_status attune_mpi_run_prepared(attune_mpi_call* call, attune_mpi_traffic* traffic) noexcept {
    return guarded([&] {
        if (!call) fail("a call", "null", "attune_mpi_prepare");
        put(attune::mpi::detail::call(*call->prepared), traffic);
    });
}

void attune_mpi_free_call(attune_mpi_call* call) noexcept { delete call; }
