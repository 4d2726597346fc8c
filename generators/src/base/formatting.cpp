#include <fmt/format.h>

#if FMT_VERSION < 110000
FMT_BEGIN_NAMESPACE
namespace detail {
template void vformat_to<char>(buffer<char>&, string_view, format_args, locale_ref);
}
FMT_END_NAMESPACE
#endif
