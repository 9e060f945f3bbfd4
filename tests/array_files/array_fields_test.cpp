// Names of fields, and element types.
#include "array_files/array_fields.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "array_files/element_type.hpp"
#include "array_files/file_array.hpp"
#include "tests/support/errors.hpp"

namespace tasuki {
namespace {

using testing::expect_error;
using Kind = ElementType::Kind;

TEST(ArrayFields, AreParsed) {
  const auto fields = parse_array_fields("--fields", "x=/run/images,t=labels.npy");
  ASSERT_EQ(fields.size(), 2u);
  EXPECT_EQ(fields[0].name, "x");
  EXPECT_EQ(fields[0].array, "/run/images");
  EXPECT_EQ(fields[1].name, "t");
  EXPECT_EQ(fields[1].array, "labels.npy");
  EXPECT_EQ(parse_array_fields("--fields", "y=a=b")[0].array, "a=b");
  for (const char* const bad : {"", "x", "=a", "x=", "x=a,,t=b", "x=a,t", "x=a,"})
    expect_error(ErrorKind::usage, {"--fields: expected fields and their arrays", bad},
                 [&] { parse_array_fields("--fields", bad); });
  expect_error(ErrorKind::usage, {"two arrays are named for the field 'x'"},
               [] { parse_array_fields("--fields", "x=a,x=b"); });
}

TEST(ElementTypes, AreReadFromNumPysNames) {
  EXPECT_EQ(element_type_of_numpy("<f4"), (ElementType{Kind::floating, 4}));
  EXPECT_EQ(element_type_of_numpy(">i2"), (ElementType{Kind::signed_integer, 2, true}));
  EXPECT_EQ(element_type_of_numpy(">u1"), (ElementType{Kind::unsigned_integer, 1}));
  EXPECT_EQ(element_type_of_numpy("|b1"), (ElementType{Kind::boolean, 1}));
  for (const char* const other : {"<c8", "<f1", "|f4", "<M8", "<U3", "f4", "", "<f16", "<i3"})
    EXPECT_FALSE(element_type_of_numpy(other)) << other;
  EXPECT_EQ((ElementType{Kind::signed_integer, 2, true}).name(), "int16 (big endian)");
}

TEST(ElementTypes, HaveTypesInBatches) {
  const auto types = [](ElementType type, std::optional<DType> wanted, bool has_classes) {
    const auto found = field_types(type, wanted, has_classes);
    return found ? std::optional(std::pair(found->stored, found->decoded)) : std::nullopt;
  };
  const ElementType u8{Kind::unsigned_integer, 1}, i16{Kind::signed_integer, 2},
      i64{Kind::signed_integer, 8}, u32{Kind::unsigned_integer, 4}, f64{Kind::floating, 8},
      boolean{Kind::boolean, 1};
  const auto floats = [](DType stored) { return std::pair(stored, DType::float32); };
  EXPECT_EQ(types(u8, {}, false), floats(DType::uint8));
  EXPECT_EQ(types(i16, {}, false), floats(DType::float32));
  EXPECT_EQ(types(boolean, {}, false), floats(DType::float32));
  EXPECT_EQ(types(f64, {}, false), floats(DType::float64));
  EXPECT_EQ(types(i64, DType::float32, false), floats(DType::float32));
  EXPECT_EQ(types(i64, {}, false), std::pair(DType::int64, DType::int64));
  EXPECT_EQ(types(u32, {}, false), std::pair(DType::int64, DType::int64));
  EXPECT_EQ(types(i64, {}, true), std::pair(DType::int32, DType::int32));
  EXPECT_EQ(types(u8, {}, true), std::pair(DType::uint8, DType::int32));
  EXPECT_EQ(types(f64, {}, true), std::nullopt);
  EXPECT_EQ(types(f64, DType::int64, false), std::nullopt);
  EXPECT_EQ(types(i16, DType::float16, false), std::nullopt);
}

TEST(ElementTypes, RefuseIntegersThatDoNotFit) {
  const auto read = element_reader({Kind::unsigned_integer, 8}, DType::int64, "labels");
  const std::uint64_t values[] = {1, std::uint64_t{1} << 63};
  std::int64_t to[2];
  const auto bytes_of = [](auto* numbers) { return reinterpret_cast<std::byte*>(numbers); };
  read(reinterpret_cast<const std::byte*>(values), bytes_of(to), 1);
  EXPECT_EQ(to[0], 1);
  expect_error(ErrorKind::data, {"labels: expected integers from", "found 9223372036854775808"},
               [&] { read(reinterpret_cast<const std::byte*>(values), bytes_of(to), 2); });
}

TEST(FileArrays, OfImpossibleSizesAreRefused) {
  EXPECT_TRUE(is_possible(std::vector<std::int64_t>{0, 3}));
  EXPECT_FALSE(is_possible(std::vector<std::int64_t>{0, std::int64_t{1} << 40, 1 << 20}));
  EXPECT_FALSE(is_possible(std::vector<std::int64_t>{-1}));
  const auto open = [](std::vector<std::int64_t> sizes, ArrayFileField field) {
    dataset_of({std::move(field)}, {{.place = "a", .sizes = std::move(sizes)}});
  };
  expect_error(ErrorKind::data, {"field 'x': a:", "axis 0 numbers the examples", "a single number"},
               [&] {
                 open({}, {"x", "a"});
               });
  expect_error(ErrorKind::data, {"expected at most 6 axes, found 7"}, [&] {
    open({1, 1, 1, 1, 1, 1, 1}, {"x", "a"});
  });
  ArrayFileField image{"x", "a"};
  image.example = Shape{784};
  expect_error(ErrorKind::data,
               {"field 'x': a: expected examples of shape 784", "784 values, found shape 27x28"},
               [&] {
                 open({2, 27, 28}, image);
               });
  ArrayFileField labels{"t", "a"};
  labels.classes = 3;
  expect_error(ErrorKind::data, {"field 't': a: expected labels", "found float32"},
               [&] { open({2}, labels); });
}

}  // namespace
}  // namespace tasuki
