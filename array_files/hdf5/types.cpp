#include "array_files/hdf5/types.hpp"

#include <array>
#include <cstring>
#include <memory>
#include <optional>

#include "core/error.hpp"

namespace tasuki::hdf5 {
namespace {

using Kind = ElementType::Kind;

// IEEE's 16 bits, which HDF5 1.10 has no name for.
Handle half(hid_t of_32_bits) {
  Handle made(H5Tcopy(of_32_bits));
  constexpr std::size_t sign = 15, exponent = 10, exponent_bits = 5, mantissa_bits = 10, bias = 15;
  const bool is_made =
      H5Tset_fields(made.get(), sign, exponent, exponent_bits, 0, mantissa_bits) >= 0 &&
      H5Tset_size(made.get(), 2) >= 0 && H5Tset_ebias(made.get(), bias) >= 0;
  TASUKI_CHECK(is_made, "HDF5 makes no type of 16 bits");
  return made;
}

std::optional<ElementType> standard_type(hid_t type) {
  struct Known {
    hid_t id;
    ElementType type;
  };
  const Handle little = half(H5T_IEEE_F32LE), big = half(H5T_IEEE_F32BE);
  const Known known[] = {{H5T_STD_U8LE, {Kind::unsigned_integer, 1}},
                         {H5T_STD_U8BE, {Kind::unsigned_integer, 1}},
                         {H5T_STD_U16LE, {Kind::unsigned_integer, 2}},
                         {H5T_STD_U16BE, {Kind::unsigned_integer, 2, true}},
                         {H5T_STD_U32LE, {Kind::unsigned_integer, 4}},
                         {H5T_STD_U32BE, {Kind::unsigned_integer, 4, true}},
                         {H5T_STD_U64LE, {Kind::unsigned_integer, 8}},
                         {H5T_STD_U64BE, {Kind::unsigned_integer, 8, true}},
                         {H5T_STD_I8LE, {Kind::signed_integer, 1}},
                         {H5T_STD_I8BE, {Kind::signed_integer, 1}},
                         {H5T_STD_I16LE, {Kind::signed_integer, 2}},
                         {H5T_STD_I16BE, {Kind::signed_integer, 2, true}},
                         {H5T_STD_I32LE, {Kind::signed_integer, 4}},
                         {H5T_STD_I32BE, {Kind::signed_integer, 4, true}},
                         {H5T_STD_I64LE, {Kind::signed_integer, 8}},
                         {H5T_STD_I64BE, {Kind::signed_integer, 8, true}},
                         {little.get(), {Kind::floating, 2}},
                         {big.get(), {Kind::floating, 2, true}},
                         {H5T_IEEE_F32LE, {Kind::floating, 4}},
                         {H5T_IEEE_F32BE, {Kind::floating, 4, true}},
                         {H5T_IEEE_F64LE, {Kind::floating, 8}},
                         {H5T_IEEE_F64BE, {Kind::floating, 8, true}}};
  for (const Known& each : known)
    if (H5Tequal(type, each.id) > 0) return each.type;
  return std::nullopt;
}

bool is_boolean(hid_t type) {
  if (H5Tget_size(type) != 1 || H5Tget_nmembers(type) != 2) return false;
  for (unsigned member = 0; member < 2; ++member) {
    const auto release = [](char* name) { H5free_memory(name); };
    const std::unique_ptr<char, decltype(release)> name(H5Tget_member_name(type, member), release);
    unsigned char value = 0;
    if (!name || H5Tget_member_value(type, member, &value) < 0 ||
        std::strcmp(name.get(), value == 0 ? "FALSE" : "TRUE") != 0 || value > 1)
      return false;
  }
  return true;
}

const char* name_of(H5T_class_t type_class) {
  switch (type_class) {
    case H5T_INTEGER:
      return "integers of an unusual layout";
    case H5T_FLOAT:
      return "floating numbers of another format than IEEE's of 16, 32 and 64 bits";
    case H5T_STRING:
      return "texts";
    case H5T_COMPOUND:
      return "a compound type";
    case H5T_ARRAY:
      return "arrays in each element";
    case H5T_VLEN:
      return "elements of different lengths";
    case H5T_REFERENCE:
      return "references";
    default:
      return "elements of another type";
  }
}

}  // namespace

ElementType element_type_of(const Handle& type, std::string_view place) {
  const H5T_class_t type_class = H5Tget_class(type.get());
  if (type_class == H5T_ENUM) {
    if (is_boolean(type.get())) return {Kind::boolean, 1};
    return element_type_of(opened(H5Tget_super(type.get()), place, "cannot read its type"), place);
  }
  if (type_class == H5T_INTEGER || type_class == H5T_FLOAT)
    if (const auto found = standard_type(type.get())) return *found;
  fail(ErrorKind::data, "{}: expected numbers, found {}", place, name_of(type_class));
}

}  // namespace tasuki::hdf5
