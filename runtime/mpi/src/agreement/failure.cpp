#include "mpi/src/agreement/failure.hpp"

#include <algorithm>
#include <attune/mpi/agree.hpp>

#include "base/text.hpp"

namespace attune::mpi {

using detail::say;

std::string in_seconds(double seconds) { return detail::in_short(seconds) + " s"; }

void notice::say(std::string_view sentence) {
    constexpr std::string_view cut = "...";
    const std::size_t room = text.size() - 1;
    std::size_t kept = sentence.size();
    if (kept > room)  // between two characters of UTF-8
        for (kept = room - cut.size(); kept > 0 && (static_cast<unsigned char>(sentence[kept]) & 0xc0u) == 0x80u;)
            --kept;
    auto end = std::copy_n(sentence.begin(), kept, text.begin());
    if (kept < sentence.size()) end = std::copy(cut.begin(), cut.end(), end);
    std::fill(end, text.end(), '\0');
}

std::string verdict(std::span<const std::optional<notice>> told) {
    std::vector<int> silent;
    for (std::size_t rank = 0; rank < told.size(); ++rank)
        if (!told[rank]) silent.push_back(static_cast<int>(rank));
    const auto first = [&](auto&& wanted) {
        const auto at = std::find_if(told.begin(), told.end(), [&](const auto& each) { return each && wanted(*each); });
        return at == told.end() ? nullptr : &**at;
    };
    if (const notice* const one = first([](const notice& each) { return each.what == notice::thrown; }))
        return say("attune: on rank ", one->rank, ": ", one->sentence());
    // An awaited rank may itself wait for another. The blame goes to a silent rank.
    const auto for_silent = [&](const notice& each) {
        return each.what == notice::waiting && std::find(silent.begin(), silent.end(), each.awaited) != silent.end();
    };
    if (const notice* const one = first(for_silent)) return std::string(one->sentence());
    const auto joins = [](const notice& each) { return each.what == notice::joining; };
    if (const notice* const one = first(joins); one && !silent.empty())
        return say("attune: expected rank", silent.size() > 1 ? "s " : " ", list_of_ranks(silent), " in ",
                   one->sentence());
    // All are there, and wait for each other.
    const notice* one = first([](const notice& each) { return each.late != 0; });
    if (!one) one = first([](const notice& each) { return each.what != notice::busy; });
    if (!one) one = first([](const notice&) { return true; });
    return one->what == notice::joining ? say("attune: expected all ranks in ", one->sentence())
                                        : std::string(one->sentence());
}

}  // namespace attune::mpi
