// Calls over many nodes in virtual time, with the plan that a run would have: simulate --help
#include "decode.hpp"
#include "drawing.hpp"
#include "masks.hpp"
#include "simulation.hpp"

#include <attune/mpi/states.hpp>
#include <attune/runtime/error.hpp>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <stdexcept>

namespace {

using namespace attune;

constexpr int heads = 32, key_heads = 8;

struct asked {
    std::string mask = "causal", layout = "all", drawn;
    std::int64_t nodes = 64, tokens = 1 << 20, length = 32768, seed = 1, stages = 0, rack = 32, queries = 0,
                 head_parts = 0;
    double flops = 5.6e12, merged = 200e9, read = 200e9, jitter = 0, spread = 0.7;
    simulated::network net;
    bool json = false;
};

constexpr mpi::arrangement arrangements[] = {
    mpi::arrangement::contiguous, mpi::arrangement::zigzag, mpi::arrangement::striped, mpi::arrangement::documents,
    mpi::arrangement::affinity,   mpi::arrangement::greedy, mpi::arrangement::ports};

/// A number in a range; what is none is refused in the words of all refusals.
template <class Number>
void number(CLI::App& app, const std::string& name, Number& to, Number least, Number most, const std::string& help) {
    const auto read = [=, &to](const std::string& given) {
        double value = 0;
        const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), value);
        const bool is_one = error == std::errc() && end == given.data() + given.size() && std::isfinite(value) &&
                            (std::is_floating_point_v<Number> || value == std::floor(value));
        if (!is_one || value < static_cast<double>(least) || value > static_cast<double>(most))
            throw std::runtime_error(
                fmt::format("expected {} from {} to {}, got {}; try {} {}", name, least, most, given, name, to));
        to = static_cast<Number>(value);
    };
    app.add_option_function<std::string>(name, read, help)->default_str(fmt::format("{}", to));
}

void word(CLI::App& app, const std::string& name, std::string& to, const std::vector<std::string>& of,
          const std::string& help) {
    const auto read = [=, &to](const std::string& given) {
        if (std::ranges::find(of, given) == of.end())
            throw std::runtime_error(
                fmt::format("expected {} of {}, got {}; try {} {}", name, fmt::join(of, ", "), given, name, of[0]));
        to = given;
    };
    app.add_option_function<std::string>(name, read, fmt::format("{}: {}", help, fmt::join(of, ", ")))->default_str(to);
}

void declare(CLI::App& app, asked& of) {
    word(app, "--mask", of.mask, {"causal", "window", "documents"}, "who sees whom");
    word(app, "--layout", of.layout, {"all", "best"}, "which layouts are simulated");
    number<std::int64_t>(app, "--nodes", of.nodes, 1, 4096, "ranks, one a node");
    number<std::int64_t>(app, "--tokens", of.tokens, 1, std::int64_t{1} << 26, "of the whole sequence");
    number(app, "--rate", of.net.bytes, 1e3, 1e15, "bytes a second of a node's port, each way");
    number(app, "--latency", of.net.latency, 0.0, 1.0, "seconds until a message arrives");
    number(app, "--flops", of.flops, 1e6, 1e18, "multiplications and additions of a node in a second");
    number(app, "--merged", of.merged, 1e6, 1e15, "bytes of results that a further stage reads and writes in a second");
    number(app, "--oversubscription", of.net.oversubscription, 1.0, 1000.0,
           "how many times what leaves a rack exceeds its links");
    number<std::int64_t>(app, "--rack", of.rack, 1, 4096, "nodes of a rack");
    number(app, "--jitter", of.jitter, 0.0, 100.0, "by how much of its time a stage takes longer at random, at most");
    number<std::int64_t>(app, "--stages", of.stages, 0, mpi::detail::most_stages, "of a call; 0: the planner's");
    number<std::int64_t>(app, "--head-parts", of.head_parts, 0, key_heads,
                         "nodes that share heads; 0: the planner's, 1: none");
    number<std::int64_t>(app, "--queries", of.queries, 0, 1024,
                         "of decode over all tokens, beside rings; 0: prefill, as all other options");
    number(app, "--read", of.read, 1e6, 1e15, "bytes of keys that a node reads in a second, in decode");
    number<std::int64_t>(app, "--length", of.length, 1, std::int64_t{1} << 26, "the median of documents' lengths");
    number(app, "--spread", of.spread, 0.0, 10.0, "the standard deviation of their logarithm");
    number<std::int64_t>(app, "--seed", of.seed, 0, 4294967295, "of documents and jitter");
    app.add_option("--draw", of.drawn, "an SVG of who sends what to whom in the planner's layout");
    app.add_flag("--json", of.json, "prints JSON");
}

std::string label_of(const mpi::layout& plan) {
    const std::string name(mpi::name_of(plan.chosen()));
    return plan.head_parts() > 1 ? fmt::format("{}, {} share heads", name, plan.head_parts()) : name;
}

nlohmann::json result_of(const mpi::layout& plan, const simulated::schedule& what, const simulated::outcome& got) {
    // What is scheduled is of the nodes with the same heads, as many as there are shares of them.
    const double parts = plan.head_parts(), by_heads = simulated::head_exchange_of(plan).bytes;
    const std::size_t nodes = what.computing.size();
    std::vector<double> sent(nodes), received(nodes);
    double all = 0, most_sent = 0, most_received = 0;
    std::size_t stages = 0;
    for (const simulated::transfer& each : what.transfers) {
        sent[static_cast<std::size_t>(each.from)] += each.bytes, all += each.bytes;
        received[static_cast<std::size_t>(each.to)] += each.bytes;
    }
    all = parts * all + plan.ranks() * by_heads;
    for (const double each : sent) most_sent = std::max(most_sent, each + by_heads);
    for (const double each : received) most_received = std::max(most_received, each + by_heads);
    for (const auto& each : what.computing) stages = std::max(stages, each.size() - 1);
    const mpi::cost& predicted = plan.graphs()[0].predicted;
    return {{"layout", label_of(plan)},
            {"efficiency", got.efficiency},
            {"milliseconds", 1e3 * got.seconds},
            {"predicted_milliseconds", 1e3 * predicted.seconds},
            {"waiting", got.waiting / (plan.ranks() * got.seconds)},
            {"balance", predicted.balance},
            {"bytes", all},
            {"of_ring", predicted.ring > 0 ? all / predicted.ring : 0},
            {"most_sent", most_sent},
            {"most_received", most_received},
            {"messages", static_cast<std::int64_t>(parts) * what.messages +
                             std::int64_t{plan.ranks()} * plan.graphs()[0].head_messages},
            {"stages", stages}};
}

void print(const nlohmann::json& all) {
    fmt::print("{} of {} tokens on {} nodes, {} chunks; planned in {:.0f} ms, blocks asked for in {:.0f} ms\n",
               all["mask"].get<std::string>(), all["tokens"].get<std::int64_t>(), all["nodes"].get<std::int64_t>(),
               all["chunks"].get<int>(), all["planning_milliseconds"].get<double>(),
               all["blocks_milliseconds"].get<double>());
    fmt::print("{:<38}{:>11}{:>9}{:>11}{:>9}{:>8}{:>11}{:>9}{:>9}{:>9}{:>8}\n", "layout", "efficiency", "ms",
               "predicted", "balance", "waits", "GB sent", "of ring", "most out", "most in", "stages");
    for (const auto& each : all["layouts"])
        fmt::print("{:<38}{:>9.1f} %{:>9.2f}{:>11.2f}{:>9.3f}{:>6.1f} %{:>11.4g}{:>7.2f} %{:>9.3g}{:>9.3g}{:>8}\n",
                   each["layout"].get<std::string>() + (each["layout"] == all["chosen"] ? " *" : ""),
                   100 * each["efficiency"].get<double>(), each["milliseconds"].get<double>(),
                   each["predicted_milliseconds"].get<double>(), each["balance"].get<double>(),
                   100 * each["waiting"].get<double>(), each["bytes"].get<double>() / 1e9,
                   100 * each["of_ring"].get<double>(), each["most_sent"].get<double>() / 1e9,
                   each["most_received"].get<double>() / 1e9, each["stages"].get<int>());
    fmt::print("* the planner's; most out and in: GB of one node\n");
}

/// Decode: every key is visible to every query.
void run_decode(const asked& of) {
    const attune::kernel_table& table = *simulated::mask_of("causal", of.tokens, {}).table;
    mpi::planning what{.heads = heads, .key_heads = key_heads, .tokens = of.tokens, .queries = of.queries};
    what.speed = {of.flops, of.net.bytes, of.net.latency, of.merged, of.read};
    mpi::detail::kernel_for(table, what, {});
    const int nodes = static_cast<int>(of.nodes);
    mpi::exchange_plan graph;
    graph.bytes = mpi::detail::bytes_of(table.graph, what, {});
    graph.state_bytes = mpi::detail::output_states(table.graph, heads * of.queries, what.value_depth).bytes();
    std::vector<mpi::layout> plans;
    for (int rank = 0; rank < nodes; ++rank)
        plans.emplace_back(what, rank, nodes, mpi::cut(of.tokens, nodes), std::vector<int>(), false,
                           std::vector{graph});
    nlohmann::json all{{"nodes", nodes}, {"tokens", of.tokens}, {"queries", of.queries}};
    all["predicted_milliseconds"] = 1e3 * plans[0].graphs()[0].predicted.seconds;
    const simulated::decoded tree = simulated::tree_of_states(plans, of.net);
    for (const auto& [name, way] : {std::pair("tree of states", tree),
                                    {"ring of states", simulated::ring_of_states(plans, of.net)},
                                    {"ring of keys", simulated::ring_of_keys(plans, of.net)}})
        all["ways"].push_back({{"way", name},
                               {"milliseconds", 1e3 * way.seconds},
                               {"of_tree", way.seconds / tree.seconds},
                               {"bytes", way.bytes},
                               {"messages", way.messages}});
    if (of.json) return fmt::print("{}\n", all.dump(2));
    fmt::print("decode of {} queries over {} keys on {} nodes; predicted {:.3f} ms\n", of.queries, of.tokens, nodes,
               all["predicted_milliseconds"].get<double>());
    fmt::print("{:<16}{:>10}{:>10}{:>12}{:>10}\n", "way", "ms", "of tree", "MB sent", "messages");
    for (const auto& each : all["ways"])
        fmt::print("{:<16}{:>10.3f}{:>10.2f}{:>12.4g}{:>10}\n", each["way"].get<std::string>(),
                   each["milliseconds"].get<double>(), each["of_tree"].get<double>(), each["bytes"].get<double>() / 1e6,
                   each["messages"].get<std::int64_t>());
}

void run(const asked& of) {
    if (of.queries > 0) return run_decode(of);
    using clock = std::chrono::steady_clock;
    const auto milliseconds = [](clock::time_point since) {
        return std::chrono::duration<double, std::milli>(clock::now() - since).count();
    };
    const int nodes = static_cast<int>(of.nodes);
    if (of.head_parts > 1 && (of.nodes % of.head_parts != 0 || key_heads % of.head_parts != 0))
        throw std::runtime_error(
            fmt::format("expected --head-parts that divides {} nodes and {} key heads, got {}; try --head-parts 0",
                        of.nodes, key_heads, of.head_parts));
    const simulated::masked mask =
        simulated::mask_of(of.mask, of.tokens, {of.length, of.spread, static_cast<std::uint32_t>(of.seed)});
    mpi::planning what{.heads = heads, .key_heads = key_heads, .tokens = of.tokens};
    what.stages = static_cast<int>(of.stages);
    what.speed = {.flops = of.flops, .bytes = of.net.bytes, .latency = of.net.latency, .merged = of.merged};
    mpi::detail::kernel_for(*mask.table, what, {});
    const mpi::chunks tokens = mpi::cut(of.tokens, nodes);
    const auto asks = clock::now();
    const mpi::work_table work = mpi::detail::work_of(*mask.table, what, mask.given(), tokens, 0, tokens.count(), {});
    nlohmann::json all{{"mask", of.mask},          {"nodes", of.nodes}, {"tokens", of.tokens},
                       {"chunks", tokens.count()}, {"seed", of.seed},   {"blocks_milliseconds", milliseconds(asks)}};
    if (of.mask == "documents") all["spread"] = of.spread, all["length"] = of.length;
    mpi::exchange_plan graph;
    graph.variant = mask.table->variant, graph.fingerprint = mask.table->graph.fingerprint, graph.travellers = 2;
    graph.bytes = mpi::detail::bytes_of(mask.table->graph, what, mask.given());
    graph.rows_in = 3, graph.rows_out = 2;
    graph.bytes_without_heads = mpi::detail::bytes_without_heads(mask.table->graph, what, mask.given());
    const auto planned = [&](mpi::arrangement how, int head_parts) {
        mpi::planning by = what;
        by.layout = how, by.head_parts = head_parts;
        return mpi::layout(by, 0, nodes, tokens, {}, {work}, {graph});
    };
    const auto plans = clock::now();
    const mpi::layout best = planned(mpi::arrangement::best, static_cast<int>(of.head_parts));
    all["planning_milliseconds"] = milliseconds(plans), all["chosen"] = label_of(best);
    simulated::network net = of.net;
    net.rack = static_cast<int>(of.rack);
    const auto add = [&](const mpi::layout& plan) {
        mpi::work_table share = work;
        share.flops /= plan.head_parts();
        const simulated::schedule schedule = simulated::schedule_of(
            plan.of_same_heads() ? *plan.of_same_heads() : plan, share, of.jitter, static_cast<std::uint32_t>(of.seed));
        all["layouts"].push_back(result_of(plan, schedule, simulated::simulate(plan, schedule, net)));
        if (of.drawn.empty() || label_of(plan) != label_of(best)) return;
        std::ofstream to(of.drawn);
        to << simulated::drawing(
            schedule, fmt::format("{}: {} tokens on {} nodes, {}", of.mask, of.tokens, nodes, label_of(plan)));
        if (!to.flush())
            throw std::runtime_error(fmt::format(
                "expected a file to write to, got {}; try --draw sent.svg in a folder that exists", of.drawn));
    };
    for (const mpi::arrangement how : arrangements)
        if (of.layout == "all" || (how == best.chosen() && best.head_parts() == 1)) add(planned(how, 1));
    if (best.head_parts() > 1) add(best);
    if (of.json)
        fmt::print("{}\n", all.dump(2));
    else
        print(all);
}

}  // namespace

int main(int count, char** arguments) {
    CLI::App app(
        "Calls of attention over many nodes in virtual time: attune's own plan, with 32 heads of depth 128 in "
        "f32 and 8 key heads, and a model of the network",
        "simulate");
    asked of;
    declare(app, of);
    try {
        app.parse(count, arguments);
        run(of);
        return 0;
    } catch (const CLI::Success& help) {
        return app.exit(help);
    } catch (const CLI::ParseError& refusal) {
        fmt::print(stderr, "simulate: expected options of simulate with their values, got: {}; try simulate --help\n",
                   refusal.what());
    } catch (const std::exception& refusal) {
        fmt::print(stderr, "simulate: {}\n", refusal.what());
    }
    return 1;
}
