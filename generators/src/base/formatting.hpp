#pragma once
#include <fmt/format.h>

// fmt's formatting is compiled once, in formatting.cpp, rather than in each file that formats: that took a second and a
// half a file.
#if FMT_VERSION < 110000  // from fmt 11 on this is no template
FMT_BEGIN_NAMESPACE
namespace detail {
extern template void vformat_to<char>(buffer<char>&, string_view, format_args, locale_ref);
}
FMT_END_NAMESPACE
#endif
