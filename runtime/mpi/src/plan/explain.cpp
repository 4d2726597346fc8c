#include "base/text.hpp"

#include <attune/mpi/plan.hpp>

#include <cmath>

namespace attune::mpi {
namespace {

using attune::detail::in_bytes, attune::detail::in_short, attune::detail::say;

std::string percent(double part, double all) { return all > 0 ? say(in_short(100 * part / all), " %") : "0 %"; }

std::string bytes(double count) { return in_bytes(static_cast<std::uint64_t>(count)); }

std::string milliseconds(double seconds) { return say(in_short(1000 * seconds), " ms"); }

/// The part of a decode plan's explanation for one graph.
std::string decode_in_words(const layout& plan, const exchange_plan& graph) {
    const cost& of = graph.predicted;
    return say("variant    ", graph.variant, ", ", plan.made_for().queries, " queries on every rank\n",  //
               "keys       ", bytes(graph.bytes.keys * static_cast<double>(plan.positions().size())), " here of ",
               bytes(graph.bytes.keys * static_cast<double>(plan.chunks().tokens())), "; the most of a rank is ",
               in_short(of.balance), " of the mean\n",  //
               "exchange   a state is ", bytes(static_cast<double>(graph.state_bytes)), "; sends ",
               bytes(static_cast<double>(graph.bytes_sent())), " in ", graph.messages_sent(), " messages, receives ",
               bytes(static_cast<double>(graph.bytes_received())), "; all ranks ", bytes(of.received), ", ",
               percent(of.received, of.ring), " of what a ring sends of keys\n",  //
               "time       ", milliseconds(of.seconds), " predicted: reading keys ", milliseconds(of.computing),
               ", sending ", milliseconds(of.sending), ", at ", bytes(plan.made_for().speed.read), " and ",
               bytes(plan.made_for().speed.bytes), " a second\n");
}

}  // namespace

plan_explanation layout::explain() const {
    std::string all = say("ranks      ", ranks_, ", of which this is ", rank_, "; ", chunks_.tokens(), " tokens in ",
                          chunks_.count(), " chunks; ", positions_.size(), " tokens here\n");
    all += say("layout     ", name_of(chosen_), made_for_.layout == arrangement::best ? "" : ", as was asked for",
               head_parts() > 1 ? say("; each ", head_parts(), " ranks share the heads of their tokens") : "", "\n");
    for (const exchange_plan& graph : graphs_) {
        if (decodes()) {
            all += decode_in_words(*this, graph);
            continue;
        }
        const cost& of = graph.predicted;
        const auto received = static_cast<double>(graph.bytes_received()),
                   sent = static_cast<double>(graph.bytes_sent());
        all += say("variant    ", graph.variant, "\n");
        all += say("work       ", in_short(graph.work), " FLOPs here of ", in_short(graph.all_work),
                   "; the most of a rank is ", in_short(of.balance), " of the mean\n");
        all += say("exchange   receives ", bytes(received), " in ", graph.stages.size(), " stages, sends ", bytes(sent),
                   "; all ranks ", bytes(of.received), ", ", percent(of.received, of.ring), " of what a ring sends\n");
        all += say("time       ", milliseconds(of.seconds), " predicted: computing ", milliseconds(of.computing),
                   ", sending ", milliseconds(of.sending), ", at ", in_short(made_for_.speed.flops), " FLOPs and ",
                   bytes(made_for_.speed.bytes), " a second\n");
        std::string_view title = "considered ";
        for (const auto& [each, its] : graph.considered) {
            all += say(title, name_of(each), its.head_parts > 1 ? say(", ", its.head_parts, " share heads") : "", ": ",
                       milliseconds(its.seconds), ", balance ", in_short(its.balance), ", ",
                       percent(its.received, its.ring), " of a ring's bytes, ", its.stages, " stages\n");
            title = "           ";
        }
    }
    return {all};
}

}  // namespace attune::mpi
