#include "gguf.hpp"

#include "blocks.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace language_model {
namespace {

constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();

/// Reads on from the start of a file, and refuses to read beyond its end.
class cursor {
public:
    cursor(const gguf& of, std::span<const std::byte> left) : of_(of), left_(left), size_(left.size()) {}

    std::span<const std::byte> take(std::uint64_t bytes, std::string_view what) {
        if (bytes > left_.size())
            of_.refuse("truncated: expected " + std::to_string(bytes) + " bytes for " + std::string(what) +
                       " at byte " + std::to_string(at()) + ", got " + std::to_string(left_.size()));
        const auto taken = left_.first(bytes);
        left_ = left_.subspan(bytes);
        return taken;
    }
    template <class T> T number(std::string_view what) {
        T x;
        std::memcpy(&x, take(sizeof x, what).data(), sizeof x);
        return x;
    }
    std::string_view text(std::string_view what) {
        const auto bytes = take(number<std::uint64_t>(what), what);
        return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    }
    /// How many there are of what takes so many bytes each at least.
    std::uint64_t count(std::size_t bytes, std::string_view what) {
        const auto many = number<std::uint64_t>(what);
        if (many > left_.size() / bytes)
            of_.refuse("truncated: expected " + std::to_string(many) + " of " + std::string(what) + " at byte " +
                       std::to_string(at()) + ", got " + std::to_string(left_.size()) + " bytes");
        return many;
    }
    std::size_t at() const { return size_ - left_.size(); }
    const gguf& of() const { return of_; }

private:
    const gguf& of_;
    std::span<const std::byte> left_;
    std::size_t size_;
};

/// The kinds of values, as the format numbers them.
enum class kind : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, text, list, u64, i64, f64 };

std::size_t bytes_of(kind k) {
    constexpr std::size_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};
    return bytes[static_cast<std::size_t>(k)];
}

kind kind_of(cursor& in, std::string_view name) {
    const auto number = in.number<std::uint32_t>(name);
    if (number > static_cast<std::uint32_t>(kind::f64))
        in.of().refuse("expected one of 13 kinds of values for " + std::string(name) + ", got number " +
                       std::to_string(number));
    return static_cast<kind>(number);
}

template <class T> std::int64_t integer(cursor& in, std::string_view name) { return in.number<T>(name); }

std::int64_t integer(kind k, cursor& in, std::string_view name) {
    constexpr std::int64_t (*read[])(cursor&, std::string_view) = {integer<std::uint8_t>,
                                                                   integer<std::int8_t>,
                                                                   integer<std::uint16_t>,
                                                                   integer<std::int16_t>,
                                                                   integer<std::uint32_t>,
                                                                   integer<std::int32_t>,
                                                                   nullptr,
                                                                   integer<std::uint8_t>};
    if (k < kind::text) return read[static_cast<std::size_t>(k)](in, name);
    if (k == kind::i64) return in.number<std::int64_t>(name);
    const auto x = in.number<std::uint64_t>(name);
    if (x > most)
        in.of().refuse("expected an integer of 63 bits for " + std::string(name) + ", got " + std::to_string(x));
    return static_cast<std::int64_t>(x);
}
double real(kind k, cursor& in, std::string_view name) {
    return k == kind::f32 ? static_cast<double>(in.number<float>(name)) : in.number<double>(name);
}

template <class T, class Read> std::vector<T> list_of(kind k, cursor& in, std::string_view name, Read read) {
    std::vector<T> all(in.count(bytes_of(k), name));
    for (T& each : all) each = read();
    return all;
}

gguf::value value_of(cursor& in, std::string_view name) {
    const auto is_real = [](kind k) { return k == kind::f32 || k == kind::f64; };
    const kind k = kind_of(in, name);
    if (k == kind::text) return in.text(name);
    if (is_real(k)) return real(k, in, name);
    if (k != kind::list) return integer(k, in, name);
    const kind of = kind_of(in, name);
    if (of == kind::list) in.of().refuse("expected a list of numbers or text for " + std::string(name) + ", got lists");
    if (of == kind::text) return list_of<std::string_view>(of, in, name, [&] { return in.text(name); });
    if (is_real(of)) return list_of<double>(of, in, name, [&] { return real(of, in, name); });
    return list_of<std::int64_t>(of, in, name, [&] { return integer(of, in, name); });
}

/// A tensor whose bytes have the right size, and a place that is still to be looked at.
gguf::tensor tensor_of(cursor& in, const std::string& name, std::uint64_t& bytes) {
    const auto axes = in.number<std::uint32_t>(name);
    if (axes < 1 || axes > 4) in.of().refuse("expected 1 to 4 axes of " + name + ", got " + std::to_string(axes));
    gguf::tensor made{};
    std::uint64_t count = 1;
    for (std::uint32_t axis = 0; axis < axes; ++axis) {
        const auto extent = in.number<std::uint64_t>(name);
        if (extent > most || __builtin_mul_overflow(count, extent, &count) || count > most / 8)
            in.of().refuse("expected extents of " + name + " that memory holds, got " + std::to_string(extent));
        made.extents.push_back(static_cast<std::int64_t>(extent));
    }
    const auto number = in.number<std::uint32_t>(name);
    made.type = block_of(number);
    if (made.type == nullptr)
        in.of().refuse("expected " + name + " in one of " + known_blocks() + ", got number " + std::to_string(number) +
                       " of ggml's types");
    if (static_cast<std::uint64_t>(made.extents.front()) % made.type->elements != 0)
        in.of().refuse("expected rows of " + name + " in whole blocks of " + std::to_string(made.type->elements) +
                       " elements, got " + std::to_string(made.extents.front()));
    bytes = count / made.type->elements * made.type->bytes;
    return made;
}

}  // namespace

std::int64_t gguf::tensor::count() const {
    return std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
}

std::vector<float> gguf::tensor::row(std::int64_t number) const {
    std::vector<float> to(static_cast<std::size_t>(extents.front()));
    const std::size_t size = to.size() / type->elements * type->bytes;
    as_f32(*type, bytes.subspan(static_cast<std::size_t>(number) * size, size), to);
    return to;
}

std::vector<float> gguf::tensor::all() const {
    std::vector<float> to(static_cast<std::size_t>(count()));
    as_f32(*type, bytes, to);
    return to;
}

gguf::gguf(const std::filesystem::path& path) : name_(path.string()), mapped_(true) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat facts{};
    const bool good = file >= 0 && fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size > 0;
    void* const at =
        good ? mmap(nullptr, static_cast<std::size_t>(facts.st_size), PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
    if (file >= 0) close(file);
    if (at == MAP_FAILED) refuse("expected a GGUF file, got nothing that can be read");
    file_ = {static_cast<const std::byte*>(at), static_cast<std::size_t>(facts.st_size)};
    try {
        read();
    } catch (...) {
        munmap(at, file_.size());
        throw;
    }
}

gguf::gguf(std::string name, std::span<const std::byte> bytes) : name_(std::move(name)), file_(bytes) { read(); }

gguf::~gguf() {
    if (mapped_) munmap(const_cast<std::byte*>(file_.data()), file_.size());
}

void gguf::refuse(const std::string& why) const { throw std::runtime_error(name_ + ": " + why); }

void gguf::refuse_missing(std::string_view name) const {
    refuse("expected a value " + std::string(name) + " of the kind that models have, got none");
}

const gguf::tensor& gguf::get_tensor(std::string_view name, const std::vector<std::int64_t>& extents) const {
    const auto found = tensors_.find(name);
    const auto said = [](const std::vector<std::int64_t>& all) {
        std::string text;
        for (const std::int64_t each : all) text += (text.empty() ? "" : " x ") + std::to_string(each);
        return text;
    };
    if (found == tensors_.end() || found->second.extents != extents)
        refuse("expected a tensor " + std::string(name) + " of " + said(extents) + ", got " +
               (found == tensors_.end() ? "none" : said(found->second.extents)));
    return found->second;
}

void gguf::read() {
    cursor in(*this, file_);
    const auto magic = in.take(4, "the first word");
    if (std::memcmp(magic.data(), "GGUF", 4) != 0) refuse("expected a file that begins with GGUF, got another one");
    const auto version = in.number<std::uint32_t>("the version");
    if (version < 2 || version > 3) refuse("expected GGUF of version 2 or 3, got " + std::to_string(version));
    // A tensor takes 32 bytes at least, a value 13.
    const std::uint64_t tensors = in.count(32, "tensors"), values = in.count(13, "values");
    for (std::uint64_t i = 0; i < values; ++i) {
        const std::string name(in.text("a value's name"));
        if (!values_.emplace(name, value_of(in, name)).second) refuse("expected one value " + name + ", got two");
    }
    std::vector<std::pair<tensor*, std::pair<std::uint64_t, std::uint64_t>>> places;
    for (std::uint64_t i = 0; i < tensors; ++i) {
        const std::string name(in.text("a tensor's name"));
        std::uint64_t bytes = 0;
        const auto [at, added] = tensors_.emplace(name, tensor_of(in, name, bytes));
        if (!added) refuse("expected one tensor " + name + ", got two");
        places.push_back({&at->second, {in.number<std::uint64_t>(name), bytes}});
    }
    const auto alignment = static_cast<std::uint64_t>(get<std::int64_t>("general.alignment", 32));
    if (alignment == 0 || alignment > 1u << 20 || (alignment & (alignment - 1)) != 0)
        refuse("expected general.alignment to be a power of two, got " + std::to_string(alignment));
    const std::size_t begin = std::min<std::size_t>((in.at() + alignment - 1) / alignment * alignment, file_.size());
    const auto data = file_.subspan(begin);
    for (const auto& [of, place] : places) {
        const auto [offset, bytes] = place;
        if (offset % alignment != 0 || offset > data.size() || bytes > data.size() - offset)
            refuse("truncated: expected " + std::to_string(bytes) + " bytes of a tensor at byte " +
                   std::to_string(offset) + " of the data, got " + std::to_string(data.size()) + " bytes of data");
        of->bytes = data.subspan(offset, bytes);
    }
}

}  // namespace language_model
