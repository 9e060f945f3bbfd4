// The NPY format of one array; declared in npz.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <vector>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "core/utf8.hpp"
#include "saving/npz.hpp"

namespace tasuki {
namespace {

static_assert(std::endian::native == std::endian::little,
              "arrays are written in the machine's byte order");

constexpr std::string_view magic{"\x93NUMPY", 6};
constexpr std::size_t alignment = 64;  // of the data

struct TypeName {
  std::string_view descr;
  DType dtype;
};
// The first name of a type is the one that is written.
constexpr std::array<TypeName, 7> type_names{{{"<f4", DType::float32},
                                              {"<f8", DType::float64},
                                              {"<f2", DType::float16},
                                              {"<i4", DType::int32},
                                              {"<i8", DType::int64},
                                              {"|u1", DType::uint8},
                                              {"|b1", DType::uint8}}};

std::string descr_of(const NpzValue& value) {
  if (const auto* text = std::get_if<std::string>(&value))
    return fmt::format("<U{}", std::max<std::size_t>(1, characters_of(to_utf8(*text)).size()));
  const DType dtype = std::get<Tensor>(value).dtype();
  for (const TypeName& name : type_names)
    if (name.dtype == (dtype == DType::bfloat16 ? DType::float32 : dtype))
      return std::string(name.descr);
  fail(ErrorKind::internal, "NumPy has no type for {}", name_of(dtype));
}

std::string shape_text(const Shape& shape) {
  if (shape.rank() == 1) return fmt::format("({},)", shape[0]);
  return fmt::format("({})", fmt::join(shape.begin(), shape.end(), ", "));
}

// Value of a key in the header's Python dict, up to where the next key could begin.
std::optional<std::string_view> dict_value(std::string_view dict, std::string_view key) {
  for (const char quote : {'\'', '"'}) {
    const std::string quoted = fmt::format("{}{}{}", quote, key, quote);
    const auto at = dict.find(quoted);
    if (at == std::string_view::npos) continue;
    std::string_view rest = dict.substr(at + quoted.size());
    const auto colon = rest.find_first_not_of(' ');
    if (colon == std::string_view::npos || rest[colon] != ':') return std::nullopt;
    rest.remove_prefix(colon + 1);
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    return rest;
  }
  return std::nullopt;
}

// Parses "(2, 3), ..." as a shape.
std::optional<Shape> parse_shape(std::string_view text) {
  if (text.empty() || text[0] != '(') return std::nullopt;
  const auto end = text.find(')');
  if (end == std::string_view::npos) return std::nullopt;
  std::vector<std::int64_t> sizes;
  const char* at = text.data() + 1;
  const char* const stop = text.data() + end;
  while (at != stop) {
    if (*at == ' ' || *at == ',') {
      ++at;
      continue;
    }
    std::int64_t size = 0;
    const auto [next, error] = std::from_chars(at, stop, size);
    if (error != std::errc() || size < 0 || sizes.size() == Shape::max_rank) return std::nullopt;
    sizes.push_back(size);
    at = next;
  }
  // Limited so that the number of bytes fits as well.
  std::int64_t count = 1;
  for (const std::int64_t size : sizes)
    if (__builtin_mul_overflow(count, size, &count) || count > (std::int64_t{1} << 48))
      return std::nullopt;
  return Shape(sizes);
}

// "<f4" of "'<f4', ..."; of a structured type, which is a list, all that follows.
std::string_view type_in(std::string_view descr) {
  const char quote = descr.front();
  if (quote != '\'' && quote != '"') return descr;
  return descr.substr(1, std::min(descr.size(), descr.find(quote, 1)) - 1);
}

}  // namespace

std::size_t NpyHeader::data_bytes() const {
  if (!dtype) return static_cast<std::size_t>(characters) * 4;
  return static_cast<std::size_t>(shape.count()) * size_of(*dtype);
}

std::string npy_header(const NpzValue& value) {
  const auto* tensor = std::get_if<Tensor>(&value);
  std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}",
                                 descr_of(value), shape_text(tensor ? tensor->shape() : Shape()));
  const std::size_t start = magic.size() + 4;
  const std::size_t total = (start + dict.size() + 1 + alignment - 1) / alignment * alignment;
  dict.append(total - start - dict.size() - 1, ' ');
  dict += '\n';
  std::string header(magic);
  header +=
      {'\1', '\0', static_cast<char>(dict.size() & 0xff), static_cast<char>(dict.size() >> 8)};
  return header + dict;
}

NpyHeader parse_npy_header(std::span<const std::byte> start, std::string_view name) {
  const std::string_view bytes(reinterpret_cast<const char*>(start.data()), start.size());
  if (bytes.size() < 12 || bytes.substr(0, magic.size()) != magic)
    fail(ErrorKind::data, "{} is not a NumPy array", name);
  const auto byte = [&](std::size_t i) { return std::to_integer<std::size_t>(start[i]); };
  const std::size_t version = byte(6);
  const bool is_long = version > 1;
  const std::size_t dict_at = is_long ? 12 : 10;
  const std::size_t dict_bytes =
      byte(8) | byte(9) << 8 | (is_long ? byte(10) << 16 | byte(11) << 24 : 0);
  if (version < 1 || version > 3 || dict_bytes > bytes.size() - dict_at ||
      dict_at + dict_bytes > npy_header_limit)
    fail(ErrorKind::data, "{} has an invalid NumPy header: version {}, {} bytes", name, version,
         dict_bytes);
  const std::string_view dict = bytes.substr(dict_at, dict_bytes);

  NpyHeader header;
  header.header_bytes = dict_at + dict_bytes;
  const auto descr = dict_value(dict, "descr");
  const auto order = dict_value(dict, "fortran_order");
  const auto shape_value = dict_value(dict, "shape");
  const auto shape = shape_value ? parse_shape(*shape_value) : std::nullopt;
  if (!descr || descr->size() < 4 || !order || !shape)
    fail(ErrorKind::data, "{} has a NumPy header that cannot be read", name);
  header.shape = *shape;
  const std::string_view type = type_in(*descr);
  header.type = type;
  header.is_fortran = order->substr(0, 4) == "True" && shape->rank() > 1;
  if (header.is_fortran) {
    header.unreadable = "is in Fortran order; save it with numpy.ascontiguousarray";
    return header;
  }
  if (type.size() > 2 && type.substr(0, 2) == "<U" && shape->rank() == 0) {
    const auto [end, error] =
        std::from_chars(type.data() + 2, type.data() + type.size(), header.characters);
    if (error == std::errc() && end == type.data() + type.size() && header.characters >= 0 &&
        header.characters < (std::int64_t{1} << 48))
      return header;
  }
  for (const TypeName& known : type_names)
    if (known.descr == type) header.dtype = known.dtype;
  if (!header.dtype)
    header.unreadable = fmt::format(
        "has elements of NumPy's type \"{}\"; f2, f4, f8, i4, i8, u1 and b1 (little-endian) can be "
        "read",
        quoted_input(type));
  return header;
}

Tensor npy_elements(const NpzValue& value) {
  if (const auto* tensor = std::get_if<Tensor>(&value)) {
    Tensor host = tensor->to(Device::cpu()).plain();
    return host.dtype() == DType::bfloat16 ? host.to(DType::float32) : host;
  }
  // NumPy pads texts with zeros, so an empty one has room for one character.
  const std::u32string text = characters_of(to_utf8(std::get<std::string>(value)));
  Tensor elements = Tensor::zeros(
      Shape{static_cast<std::int64_t>(std::max<std::size_t>(1, text.size()) * 4)}, DType::uint8);
  if (!text.empty()) std::memcpy(elements.raw(), text.data(), 4 * text.size());
  return elements;
}

NpzValue npy_value(const NpyHeader& header, const Tensor& elements) {
  if (header.dtype) {
    return Tensor(elements.storage(), elements.offset(), header.shape, *header.dtype);
  }
  std::u32string text(static_cast<std::size_t>(header.characters), U'\0');
  if (!text.empty()) std::memcpy(text.data(), elements.raw(), 4 * text.size());
  text.resize(text.find_last_not_of(U'\0') + 1);
  return from_utf8(text_of(text));
}

}  // namespace tasuki
