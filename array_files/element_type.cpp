#include "array_files/element_type.hpp"

#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "core/error.hpp"

namespace tasuki {
namespace {

using Kind = ElementType::Kind;

static_assert(std::endian::native == std::endian::little);

bool is_integer(const ElementType& type) {
  return type.kind == Kind::unsigned_integer || type.kind == Kind::signed_integer;
}

template <class T>
T swapped(T value) {
  if constexpr (sizeof(T) == 2)
    return __builtin_bswap16(value);
  else if constexpr (sizeof(T) == 4)
    return __builtin_bswap32(value);
  else if constexpr (sizeof(T) == 8)
    return __builtin_bswap64(value);
  else
    return value;
}

// `Bits`: the unsigned type of the elements' size.
template <class Bits>
Bits load(const std::byte* element, bool is_big_endian) {
  Bits bits{};
  std::memcpy(&bits, element, sizeof bits);
  return is_big_endian ? swapped(bits) : bits;
}

template <class Bits>
ElementReader copying(bool is_big_endian) {
  return [is_big_endian](const std::byte* elements, std::byte* values, std::int64_t count) {
    if (!is_big_endian) {
      std::memcpy(values, elements, static_cast<std::size_t>(count) * sizeof(Bits));
      return;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const Bits bits = load<Bits>(elements + i * std::int64_t{sizeof(Bits)}, true);
      std::memcpy(values + i * std::int64_t{sizeof(Bits)}, &bits, sizeof bits);
    }
  };
}

// Integers of type From as values of type To.
template <class From, class To>
ElementReader converting(bool is_big_endian, std::string place) {
  using Bits = std::make_unsigned_t<From>;
  return [is_big_endian, place = std::move(place)](const std::byte* elements, std::byte* values,
                                                   std::int64_t count) {
    auto* const to = reinterpret_cast<To*>(values);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto value =
          static_cast<From>(load<Bits>(elements + i * std::int64_t{sizeof(From)}, is_big_endian));
      if constexpr (std::is_integral_v<To>)
        if (!std::in_range<To>(value))
          fail(ErrorKind::data, "{}: expected integers from {} to {}, found {}", place,
               std::numeric_limits<To>::min(), std::numeric_limits<To>::max(), value);
      to[i] = static_cast<To>(value);  // NOLINT(bugprone-signed-char-misuse): int8 is a number
    }
  };
}

template <class To>
ElementReader reading_booleans() {
  return [](const std::byte* elements, std::byte* values, std::int64_t count) {
    auto* const to = reinterpret_cast<To*>(values);
    for (std::int64_t i = 0; i < count; ++i) to[i] = elements[i] == std::byte{0} ? To{0} : To{1};
  };
}

template <class To>
ElementReader reading_integers(const ElementType& from, std::string place) {
  const bool is_signed = from.kind == Kind::signed_integer, is_big = from.is_big_endian;
  if (from.kind == Kind::boolean) return reading_booleans<To>();
  switch (from.bytes) {
    case 1:
      return is_signed ? converting<std::int8_t, To>(is_big, std::move(place))
                       : converting<std::uint8_t, To>(is_big, std::move(place));
    case 2:
      return is_signed ? converting<std::int16_t, To>(is_big, std::move(place))
                       : converting<std::uint16_t, To>(is_big, std::move(place));
    case 4:
      return is_signed ? converting<std::int32_t, To>(is_big, std::move(place))
                       : converting<std::uint32_t, To>(is_big, std::move(place));
    default:
      return is_signed ? converting<std::int64_t, To>(is_big, std::move(place))
                       : converting<std::uint64_t, To>(is_big, std::move(place));
  }
}

// The type of values that are the elements themselves, up to the order of their bytes.
std::optional<DType> same_type(const ElementType& type) {
  if (type.kind == Kind::floating)
    return type.bytes == 2 ? DType::float16 : type.bytes == 4 ? DType::float32 : DType::float64;
  if (type.kind == Kind::unsigned_integer && type.bytes == 1) return DType::uint8;
  if (type.kind == Kind::signed_integer && type.bytes == 4) return DType::int32;
  if (type.kind == Kind::signed_integer && type.bytes == 8) return DType::int64;
  return std::nullopt;
}

DType usual_type(const ElementType& type, bool has_classes) {
  if (has_classes) return DType::int32;
  if (!is_integer(type) || type.bytes < 4) return DType::float32;
  return type == ElementType{Kind::signed_integer, 4, type.is_big_endian} ? DType::int32
                                                                          : DType::int64;
}

}  // namespace

std::string ElementType::name() const {
  if (kind == Kind::boolean) return "bool";
  const char* const text = kind == Kind::floating           ? "float"
                           : kind == Kind::unsigned_integer ? "uint"
                                                            : "int";
  return fmt::format("{}{}{}", text, 8 * bytes, is_big_endian ? " (big endian)" : "");
}

std::optional<ElementType> element_type_of_numpy(std::string_view descr) {
  if (descr.size() != 3) return std::nullopt;
  const std::string_view text = descr.substr(1);
  const char order = descr[0];
  ElementType type;
  if (text == "b1" || text == "?")
    type = {Kind::boolean, 1};
  else if (text == "u1" || text == "u2" || text == "u4" || text == "u8")
    type = {Kind::unsigned_integer, text[1] - '0'};
  else if (text == "i1" || text == "i2" || text == "i4" || text == "i8")
    type = {Kind::signed_integer, text[1] - '0'};
  else if (text == "f2" || text == "f4" || text == "f8")
    type = {Kind::floating, text[1] - '0'};
  else
    return std::nullopt;
  if (order != '<' && order != '>' && (order != '|' || type.bytes > 1)) return std::nullopt;
  type.is_big_endian = order == '>' && type.bytes > 1;
  return type;
}

std::optional<FieldTypes> field_types(const ElementType& elements, std::optional<DType> wanted,
                                      bool has_classes) {
  const DType decoded = wanted.value_or(usual_type(elements, has_classes));
  const std::optional<DType> same = same_type(elements);
  if (decoded == DType::float32)
    return FieldTypes{same && !(is_integer(elements) && elements.bytes > 1) ? *same : decoded,
                      decoded};
  if ((decoded != DType::int32 && decoded != DType::int64) || elements.kind == Kind::floating)
    return std::nullopt;
  return FieldTypes{same == DType::uint8 ? DType::uint8 : decoded, decoded};
}

ElementReader element_reader(const ElementType& elements, DType stored, std::string place) {
  if (same_type(elements) == stored) {
    switch (elements.bytes) {
      case 1:
        return copying<std::uint8_t>(false);
      case 2:
        return copying<std::uint16_t>(elements.is_big_endian);
      case 4:
        return copying<std::uint32_t>(elements.is_big_endian);
      default:
        return copying<std::uint64_t>(elements.is_big_endian);
    }
  }
  TASUKI_CHECK(elements.kind != Kind::floating, "{} cannot be stored as {}", elements.name(),
               name_of(stored));
  if (stored == DType::float32) return reading_integers<float>(elements, std::move(place));
  if (stored == DType::int32) return reading_integers<std::int32_t>(elements, std::move(place));
  TASUKI_CHECK(stored == DType::int64, "{} cannot be stored as {}", elements.name(),
               name_of(stored));
  return reading_integers<std::int64_t>(elements, std::move(place));
}

bool is_same_in_memory(const ElementType& elements, DType stored) {
  return !elements.is_big_endian && same_type(elements) == stored;
}

}  // namespace tasuki
