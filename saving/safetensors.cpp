#include "saving/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "core/file.hpp"
#include "core/json.hpp"
#include "core/own_file.hpp"
#include "core/printable.hpp"
#include "saving/regular_file.hpp"

namespace tasuki {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

static_assert(std::endian::native == std::endian::little,
              "arrays are read and written in the machine's byte order");

constexpr std::size_t length_bytes = 8;
constexpr std::uint64_t longest_header = 100'000'000;  // as in the format's own library
constexpr std::size_t alignment = 8;                   // of the elements, in files written here
constexpr const char* metadata_name = "__metadata__";

// --- types ---

// A float of 8 bits: a sign, some bits of exponent, the rest mantissa. (OCP "8-bit Floating Point
// Specification", 2023; the FNUZ forms have no infinities and no negative zero.)
struct Float8 {
  int exponent_bits, bias;
  enum class Special { ieee, only_nan, unsigned_zero } special;

  float value(std::uint8_t bits) const {
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    const int mantissa_bits = 7 - exponent_bits;
    const int exponent = (bits & 0x7f) >> mantissa_bits;
    const int mantissa = bits & ((1 << mantissa_bits) - 1);
    const float sign = bits & 0x80 ? -1.0F : 1.0F;
    if (special == Special::unsigned_zero && bits == 0x80) return nan;
    if (special == Special::only_nan && (bits & 0x7f) == 0x7f) return nan;
    if (special == Special::ieee && exponent == (1 << exponent_bits) - 1)
      return mantissa == 0 ? sign * std::numeric_limits<float>::infinity() : nan;
    const int whole = exponent == 0 ? mantissa : mantissa + (1 << mantissa_bits);
    return sign *
           std::ldexp(static_cast<float>(whole), std::max(exponent, 1) - bias - mantissa_bits);
  }
};

// The power of two that scales blocks of smaller floats (OCP "Microscaling Formats", 2023).
float float8_scale(std::uint8_t bits) {
  return bits == 0xff ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0F, bits - 127);
}

using Elements = std::span<const std::byte>;  // of a file
// Fills a tensor from them; false if a value has no place in it.
using Convert = bool (*)(Elements from, const Tensor& to);

template <class From, class To>
bool widen(Elements from, const Tensor& to) {
  const std::span<To> values = to.span<To>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    From value;
    std::memcpy(&value, from.data() + i * sizeof value, sizeof value);
    if (!std::in_range<To>(value)) return false;
    values[i] = static_cast<To>(value);  // NOLINT(bugprone-signed-char-misuse): a number
  }
  return true;
}

bool to_truth(Elements from, const Tensor& to) {
  std::ranges::transform(from, to.data<std::uint8_t>(),
                         [](std::byte byte) { return byte != std::byte{0}; });
  return true;
}

template <int exponent_bits, int bias, Float8::Special special>
bool from_float8(Elements from, const Tensor& to) {
  constexpr Float8 format{exponent_bits, bias, special};
  std::ranges::transform(from, to.data<float>(), [&](std::byte byte) {
    return format.value(std::to_integer<std::uint8_t>(byte));
  });
  return true;
}

bool from_scales(Elements from, const Tensor& to) {
  std::ranges::transform(from, to.data<float>(), [](std::byte byte) {
    return float8_scale(std::to_integer<std::uint8_t>(byte));
  });
  return true;
}

struct FileType {
  std::string_view name;
  int bits;                    // of an element
  std::optional<DType> dtype;  // as which it is read; nothing: not at all
  Convert convert = nullptr;   // null: the bytes are the tensor's
};
// In the order of the format's own library, which writes the last ones first.
constexpr std::array<FileType, 22> file_types{{
    {"BOOL", 8, DType::uint8, to_truth},
    {"F4", 4, std::nullopt},
    {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt},
    {"U8", 8, DType::uint8},
    {"I8", 8, DType::int32, widen<std::int8_t, std::int32_t>},
    {"F8_E5M2", 8, DType::float32, from_float8<5, 15, Float8::Special::ieee>},
    {"F8_E4M3", 8, DType::float32, from_float8<4, 7, Float8::Special::only_nan>},
    {"F8_E8M0", 8, DType::float32, from_scales},
    {"F8_E4M3FNUZ", 8, DType::float32, from_float8<4, 8, Float8::Special::unsigned_zero>},
    {"F8_E5M2FNUZ", 8, DType::float32, from_float8<5, 16, Float8::Special::unsigned_zero>},
    {"I16", 16, DType::int32, widen<std::int16_t, std::int32_t>},
    {"U16", 16, DType::int32, widen<std::uint16_t, std::int32_t>},
    {"F16", 16, DType::float16},
    {"BF16", 16, DType::bfloat16},
    {"I32", 32, DType::int32},
    {"U32", 32, DType::int64, widen<std::uint32_t, std::int64_t>},
    {"F32", 32, DType::float32},
    {"C64", 64, std::nullopt},
    {"F64", 64, DType::float64},
    {"I64", 64, DType::int64},
    {"U64", 64, DType::int64, widen<std::uint64_t, std::int64_t>},
}};

const FileType& written_type(DType dtype) {
  return *std::ranges::find_if(file_types, [&](const FileType& type) {
    return type.dtype == dtype && type.convert == nullptr;
  });
}

// --- the header ---

struct Entry {
  std::string name;
  const FileType* type;
  std::vector<std::int64_t> sizes;   // there may be more axes than a Shape has
  std::uint64_t begin = 0, end = 0;  // in the file

  Shape shape() const { return Shape(sizes); }
  bool has_shape() const { return sizes.size() <= Shape::max_rank; }
};

class HeaderReader {
 public:
  explicit HeaderReader(const RegularFile& file) : file_(file) {}

  std::vector<Entry> entries;  // in the order of their elements
  std::map<std::string, std::string> metadata;

  void read() {
    std::array<std::byte, length_bytes> start{};
    if (file_.bytes() < start.size()) refuse("it ends before its header");
    file_.read(0, start);
    std::uint64_t length = 0;
    std::memcpy(&length, start.data(), start.size());
    if (length > longest_header || length > file_.bytes() - length_bytes)
      refuse(fmt::format("its header would have {} bytes", length));
    std::string text(length, '\0');
    file_.read(length_bytes, std::as_writable_bytes(std::span(text)));
    if (!text.starts_with('{')) refuse("its header does not begin with a brace");
    constexpr JsonLimits limits{.levels = 4, .values = 1 << 22};
    const json header = parse_json(text, fmt::format("the header of {}", name_of_file()), limits);
    elements_ = length_bytes + length;
    for (const auto& [name, value] : header.items())
      name == metadata_name ? read_metadata(value) : read_entry(name, value);
    check_places();
  }

 private:
  std::string name_of_file() const { return file_.path().string(); }
  [[noreturn]] void refuse(const std::string& why) const {
    fail(ErrorKind::data, "{} is no intact safetensors file: {}", name_of_file(), why);
  }
  [[noreturn]] void refuse(const std::string& name, std::string_view why) const {
    refuse(fmt::format("{}: {}", printable(name), why));
  }

  void read_metadata(const json& texts) {
    if (!texts.is_object()) refuse(metadata_name, "expected an object");
    for (const auto& [key, text] : texts.items()) {
      if (!text.is_string()) refuse(metadata_name, "expected texts only");
      metadata[key] = text.get<std::string>();
    }
  }

  void read_entry(const std::string& name, const json& value) {
    const auto member = [&](const char* key, json::value_t kind) -> const json& {
      const auto found = value.is_object() ? value.find(key) : value.end();
      if (!value.is_object() || found == value.end() || found->type() != kind)
        refuse(name, fmt::format("it has no \"{}\"", key));
      return *found;
    };
    const auto number = [&](const json& each) {
      const auto found = integer_in(each);
      if (!found) refuse(name, "a size or place is not a number from 0 to 2^63 - 1");
      return *found;
    };
    const auto type_name = member("dtype", json::value_t::string).get<std::string>();
    const auto type = std::ranges::find(file_types, type_name, &FileType::name);
    if (type == file_types.end())
      refuse(name, fmt::format("unknown type {}", printable(type_name)));
    Entry entry{name, &*type, {}};
    // Limited also where another size is 0, so that products of some of the sizes fit as well.
    constexpr std::int64_t most_elements = std::int64_t{1} << 48;
    std::int64_t elements = 1;
    bool is_too_large = false, is_empty = false;
    for (const json& each : member("shape", json::value_t::array)) {
      const std::int64_t size = number(each);
      entry.sizes.push_back(size);
      is_empty = is_empty || size == 0;
      is_too_large = is_too_large ||
                     __builtin_mul_overflow(elements, std::max<std::int64_t>(size, 1), &elements) ||
                     elements > most_elements;
    }
    if (is_too_large)
      refuse(name,
             fmt::format("a shape of more than 2^48 elements: [{}]", fmt::join(entry.sizes, ", ")));
    const std::int64_t bits = is_empty ? 0 : elements * type->bits;
    const json& places = member("data_offsets", json::value_t::array);
    if (places.size() != 2) refuse(name, "expected two places in \"data_offsets\"");
    const std::int64_t begin = number(places[0]), end = number(places[1]);
    const std::uint64_t last = file_.bytes() - elements_;
    if (begin > end || std::cmp_greater(end, last))
      refuse(name, fmt::format("its elements lie at {} to {} of {} bytes", begin, end, last));
    if (bits % 8 != 0 || bits / 8 != end - begin)
      refuse(name, fmt::format("expected {} bytes for {} of shape [{}], found {}", bits / 8,
                               type->name, fmt::join(entry.sizes, ", "), end - begin));
    entry.begin = elements_ + static_cast<std::uint64_t>(begin);
    entry.end = elements_ + static_cast<std::uint64_t>(end);
    entries.push_back(std::move(entry));
  }

  void check_places() {
    std::ranges::sort(entries, {},
                      [](const Entry& entry) { return std::make_pair(entry.begin, entry.end); });
    std::uint64_t at = elements_;
    for (const Entry& entry : entries) {
      if (entry.begin != at)
        refuse(entry.name, entry.begin < at ? "its elements overlap another array's"
                                            : "there is a gap before its elements");
      at = entry.end;
    }
    if (at != file_.bytes())
      refuse(fmt::format("{} bytes follow the last array", file_.bytes() - at));
  }

  const RegularFile& file_;
  std::uint64_t elements_ = 0;  // where they begin
};

}  // namespace

// --- reading ---

struct SafetensorsFile::Contents {
  RegularFile file;
  std::vector<Entry> entries;
  std::map<std::string, std::size_t> numbers{};  // of entries, by name
  std::map<std::string, std::string> metadata{};

  explicit Contents(RegularFile opened) : file(std::move(opened)) {
    HeaderReader header(file);
    header.read();
    entries = std::move(header.entries);
    metadata = std::move(header.metadata);
    for (std::size_t i = 0; i < entries.size(); ++i) numbers[entries[i].name] = i;
  }
};

SafetensorsFile::SafetensorsFile(const fs::path& path) : SafetensorsFile(RegularFile(path)) {}
SafetensorsFile::SafetensorsFile(RegularFile file)
    : contents_(std::make_unique<Contents>(std::move(file))) {}
SafetensorsFile::~SafetensorsFile() = default;

const fs::path& SafetensorsFile::path() const {
  return contents_->file.path();
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const Entry& entry : contents_->entries) names.push_back(entry.name);
  return names;
}

std::optional<ArrayType> SafetensorsFile::find(const std::string& name) const {
  const auto found = contents_->numbers.find(name);
  if (found == contents_->numbers.end()) return std::nullopt;
  const Entry& entry = contents_->entries[found->second];
  if (!entry.has_shape())
    return ArrayType{
        {},
        std::nullopt,
        fmt::format("has {} axes; {} are possible", entry.sizes.size(), int{Shape::max_rank})};
  if (!entry.type->dtype)
    return ArrayType{
        entry.shape(), std::nullopt,
        fmt::format("has elements of type {}, which cannot be read", entry.type->name)};
  return ArrayType{entry.shape(), entry.type->dtype};
}

NpzValue SafetensorsFile::read(const std::string& name) const {
  const auto type = find(name);
  if (!type) fail(ErrorKind::data, "{} has no entry {}", path().string(), printable(name));
  const std::string where = fmt::format("{} in {}", printable(name), path().string());
  if (!type->unreadable.empty()) fail(ErrorKind::data, "{} {}", where, type->unreadable);
  const Entry& entry = contents_->entries[contents_->numbers.at(name)];
  Tensor tensor = Tensor::empty(type->shape, *type->dtype);
  if (entry.type->convert == nullptr) {
    contents_->file.read(entry.begin, {static_cast<std::byte*>(tensor.raw()), tensor.bytes()});
    return tensor;
  }
  std::vector<std::byte> elements(entry.end - entry.begin);
  contents_->file.read(entry.begin, elements);
  if (!entry.type->convert(elements, tensor))
    fail(ErrorKind::data, "{} has values above 2^63 - 1", where);
  return tensor;
}

const std::map<std::string, std::string>& SafetensorsFile::metadata() const {
  return contents_->metadata;
}

std::uint64_t SafetensorsFile::hash() const {
  return contents_->file.hash(contents_->file.bytes());
}

bool is_safetensors(const RegularFile& file) {
  std::array<std::byte, length_bytes + 1> start{};
  if (file.bytes() < start.size()) return false;
  file.read(0, start);
  return start.back() == std::byte{'{'};
}

// --- writing ---

void write_safetensors(const fs::path& path, std::span<const NpzEntry> entries,
                       const std::map<std::string, std::string>& metadata) {
  struct Array {
    const std::string* name;
    const Tensor* tensor;
    const FileType* type;
  };
  std::vector<Array> arrays;
  for (const NpzEntry& entry : entries) {
    const auto* const tensor = std::get_if<Tensor>(&entry.value);
    TASUKI_CHECK(tensor != nullptr, "{} is text, which a safetensors file cannot have", entry.name);
    arrays.push_back({&entry.name, tensor, &written_type(tensor->dtype())});
  }
  // `type` points into one table, whose order is the types' order.
  std::ranges::sort(arrays, [](const Array& one, const Array& other) {
    return one.type != other.type ? one.type > other.type : *one.name < *other.name;
  });

  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[metadata_name] = metadata;
  std::size_t at = 0;
  for (const auto& [name, tensor, type] : arrays) {
    TASUKI_CHECK(!header.contains(*name), "two arrays have the name {}", *name);
    const std::size_t end = at + tensor->bytes();
    header[*name] = {
        {"dtype", type->name},
        {"shape", std::vector<std::int64_t>(tensor->shape().begin(), tensor->shape().end())},
        {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = json_text(header);
  text.append((alignment - text.size() % alignment) % alignment, ' ');
  const std::uint64_t length = text.size();
  if (length > longest_header)
    fail(ErrorKind::config, "cannot write {}: its header would have {} bytes, and {} are possible",
         path.string(), length, longest_header);

  replace_file(path, [&](const fs::path& temporary) {
    const Descriptor file = open_own_file(temporary, OwnFile::make);
    const auto write = [&](const void* bytes, std::size_t count) {
      write_to(file, {static_cast<const char*>(bytes), count}, path);
    };
    write(&length, sizeof length);
    write(text.data(), text.size());
    for (const Array& array : arrays) {
      const Tensor host = array.tensor->to(Device::cpu()).plain();
      write(host.raw(), host.bytes());
    }
  });
}

}  // namespace tasuki
