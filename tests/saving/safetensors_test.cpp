// safetensors files: what is written comes back, all types of the format are read, and damaged
// headers are refused.
#include "saving/safetensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>

#include "core/file.hpp"
#include "saving/regular_file.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tasuki {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

// A file with this header, whose length is right, and these elements.
std::string file_with(const std::string& header, const std::string& elements = "") {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + elements;
}

class Safetensors : public ::testing::Test {
 protected:
  void write(const std::string& contents) {
    std::ofstream(folder / "file", std::ios::binary | std::ios::trunc) << contents;
  }
  // What opening and reading all of such a file says.
  std::string refusal(const std::string& contents) {
    write(contents);
    return error_of([&] {
      const SafetensorsFile file(folder / "file");
      for (const std::string& name : file.names()) file.read(name);
    });
  }
  std::string refusal_of_header(const std::string& header, const std::string& elements = "") {
    return refusal(file_with(header, elements));
  }
  // The only array of a file with these elements, one axis.
  Tensor array(const std::string& type, std::size_t count, const std::string& elements) {
    write(file_with(fmt::format(R"({{"x":{{"dtype":"{}","shape":[{}],"data_offsets":[0,{}]}}}})",
                                type, count, elements.size()),
                    elements));
    return std::get<Tensor>(SafetensorsFile(folder / "file").read("x"));
  }

  TemporaryFolder folder;
};

std::vector<double> values_of(const Tensor& tensor) {
  const Tensor wide = tensor.to(DType::float64);
  const auto values = wide.span<double>();
  return {values.begin(), values.end()};
}

template <class T>
std::string bytes_of(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(std::data(values)), sizeof(T) * values.size()};
}

TEST_F(Safetensors, RoundTripsAllTypesAndShapes) {
  std::vector<NpzEntry> entries;
  for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16,
                            DType::int32, DType::int64, DType::uint8})
    for (const Shape& shape : {Shape{}, Shape{7}, Shape{0}, Shape{3, 4}, Shape{1, 2, 3, 1, 2, 2}}) {
      const Tensor tensor = Tensor::empty(shape, dtype);
      for (std::size_t i = 0; i < tensor.bytes(); ++i)
        static_cast<unsigned char*>(tensor.raw())[i] = static_cast<unsigned char>(37 * i + 1);
      entries.push_back({fmt::format("{}/{}", name_of(dtype), shape.text()), tensor});
    }
  entries.push_back({"grüße \"→\"", Tensor::zeros({2})});
  write_safetensors(folder / "file", entries, {{"format", "pt"}});
  EXPECT_TRUE(is_safetensors(RegularFile(folder / "file")));
  const SafetensorsFile file(folder / "file");
  EXPECT_EQ(file.names().size(), entries.size());
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"format", "pt"}}));
  for (const NpzEntry& entry : entries) {
    SCOPED_TRACE(entry.name);
    const Tensor wanted = std::get<Tensor>(entry.value),
                 found = std::get<Tensor>(file.read(entry.name));
    EXPECT_EQ(found.shape(), wanted.shape());
    ASSERT_EQ(found.dtype(), wanted.dtype());
    EXPECT_EQ(std::memcmp(found.raw(), wanted.raw(), wanted.bytes()), 0);
  }
  EXPECT_FALSE(file.find("absent"));
  EXPECT_THAT(error_of([&] { file.read("absent"); }), HasSubstr("has no entry absent"));
}

// The bytes that the format's own library (0.8.0) writes for
//   save({"b": int64 [1, 2], "a": float32 [[0.5, -2]], "c": uint8 [7]}, {"format": "pt"}).
TEST_F(Safetensors, WritesTheBytesOfTheFormatsLibrary) {
  const std::vector<std::int64_t> b{1, 2};
  const std::vector<float> a{0.5F, -2};
  const std::vector<std::uint8_t> c{7};
  write_safetensors(folder / "file",
                    {{{"a", Tensor::from(std::span<const float>(a), Shape{1, 2})},
                      {"b", Tensor::from(std::span<const std::int64_t>(b), Shape{2})},
                      {"c", Tensor::from(std::span<const std::uint8_t>(c), Shape{1})}}},
                    {{"format", "pt"}});
  EXPECT_EQ(read_file(folder / "file"),
            file_with(R"({"__metadata__":{"format":"pt"},)"
                      R"("b":{"dtype":"I64","shape":[2],"data_offsets":[0,16]},)"
                      R"("a":{"dtype":"F32","shape":[1,2],"data_offsets":[16,24]},)"
                      R"("c":{"dtype":"U8","shape":[1],"data_offsets":[24,25]}}   )",
                      bytes_of<std::int64_t>({1, 2}) + bytes_of({0.5F, -2.0F}) + '\7'));
}

TEST_F(Safetensors, ReadsIntegersAsWiderOnes) {
  EXPECT_THAT(values_of(array("BOOL", 3, {'\0', '\1', '\2'})), ElementsAre(0, 1, 1));
  EXPECT_THAT(values_of(array("I8", 2, {'\x80', '\x7f'})), ElementsAre(-128, 127));
  EXPECT_THAT(values_of(array("I16", 2, bytes_of<std::int16_t>({-32768, 5}))),
              ElementsAre(-32768, 5));
  EXPECT_THAT(values_of(array("U16", 1, bytes_of<std::uint16_t>({65535}))), ElementsAre(65535));
  EXPECT_EQ(array("U16", 0, "").dtype(), DType::int32);
  EXPECT_THAT(values_of(array("U32", 1, bytes_of<std::uint32_t>({4294967295U}))),
              ElementsAre(4294967295.0));
  EXPECT_THAT(array("U64", 1, bytes_of<std::uint64_t>({INT64_MAX})).span<std::int64_t>(),
              ElementsAre(INT64_MAX));
  EXPECT_THAT(error_of([&] { array("U64", 1, bytes_of<std::uint64_t>({1ULL << 63})); }),
              HasSubstr("has values above 2^63 - 1"));
}

// Values from the tables of the formats' specifications.
TEST_F(Safetensors, ReadsFloatsOf8Bits) {
  using std::ldexp;
  constexpr double inf = INFINITY;
  EXPECT_THAT(values_of(array("F8_E4M3", 5, {'\0', '\1', '\x08', '\x7e', '\xb9'})),
              ElementsAre(0, ldexp(1, -9), ldexp(1, -6), 448, -1.125));
  EXPECT_THAT(values_of(array("F8_E5M2", 6, {'\1', '\4', '\x3e', '\x7b', '\x7c', '\xfc'})),
              ElementsAre(ldexp(1, -16), ldexp(1, -14), 1.5, 57344, inf, -inf));
  EXPECT_THAT(values_of(array("F8_E4M3FNUZ", 4, {'\1', '\x08', '\x7f', '\xff'})),
              ElementsAre(ldexp(1, -10), ldexp(1, -7), 240, -240));
  EXPECT_THAT(values_of(array("F8_E5M2FNUZ", 3, {'\1', '\x7f', '\x40'})),
              ElementsAre(ldexp(1, -17), 57344, 1));
  EXPECT_THAT(values_of(array("F8_E8M0", 3, {'\0', '\x7f', '\xfe'})),
              ElementsAre(ldexp(1, -127), 1, ldexp(1, 127)));
  const std::pair<const char*, std::string> not_numbers[] = {{"F8_E4M3", "\x7f\xff"},
                                                             {"F8_E5M2", "\x7d\xff"},
                                                             {"F8_E4M3FNUZ", "\x80"},
                                                             {"F8_E5M2FNUZ", "\x80"},
                                                             {"F8_E8M0", "\xff"}};
  for (const auto& [type, codes] : not_numbers)
    for (const double value : values_of(array(type, codes.size(), codes)))
      EXPECT_TRUE(std::isnan(value)) << type;
}

TEST_F(Safetensors, FindsArraysThatItCannotRead) {
  EXPECT_THAT(error_of([&] { array("C64", 1, std::string(8, '\0')); }),
              HasSubstr("x in " + (folder / "file").string() +
                        " has elements of type C64, which cannot be read"));
  EXPECT_THAT(error_of([&] { array("F4", 4, "ab"); }), HasSubstr("type F4"));
  EXPECT_THAT(error_of([&] { array("F6_E2M3", 4, "abc"); }), HasSubstr("type F6_E2M3"));
  write(file_with(R"({"x":{"dtype":"U8","shape":[1,1,1,1,1,1,1],"data_offsets":[0,1]}})", "a"));
  EXPECT_THAT(SafetensorsFile(folder / "file").find("x")->unreadable,
              HasSubstr("has 7 axes; 6 are possible"));
}

TEST_F(Safetensors, RefusesEveryTruncationAndFurtherBytes) {
  write_safetensors(folder / "good", {{{"a", Tensor::zeros({3})}, {"b", Tensor::zeros({0})}}});
  const std::string good = read_file(folder / "good");
  EXPECT_EQ(refusal(good), "(nothing thrown)");
  for (std::size_t length = 0; length < good.size(); ++length)
    EXPECT_THAT(refusal(good.substr(0, length)), HasSubstr("is no intact safetensors file: "));
  EXPECT_THAT(refusal(good + 'x'), HasSubstr("1 bytes follow the last array"));
}

TEST_F(Safetensors, RefusesHeadersThatDoNotFit) {
  const auto entry = [](const std::string& name, const std::string& shape, int begin, int end) {
    return fmt::format(R"("{}":{{"dtype":"U8","shape":{},"data_offsets":[{},{}]}})", name, shape,
                       begin, end);
  };
  const auto two = [&](int begin, int end) {
    return "{" + entry("a", "[4]", 0, 4) + "," + entry("b", "[4]", begin, end) + "}";
  };
  EXPECT_EQ(refusal_of_header(two(4, 8), "01234567"), "(nothing thrown)");
  EXPECT_THAT(refusal_of_header(two(3, 7), "0123456"),
              HasSubstr("b: its elements overlap another array's"));
  EXPECT_THAT(refusal_of_header(two(5, 9), "012345678"),
              HasSubstr("b: there is a gap before its elements"));
  EXPECT_THAT(refusal_of_header(two(4, 8), "0123456"),
              HasSubstr("b: its elements lie at 4 to 8 of 7 bytes"));
  EXPECT_THAT(refusal_of_header(two(8, 4), "01234567"), HasSubstr("lie at 8 to 4"));
  EXPECT_THAT(refusal_of_header("{" + entry("a", "[5]", 0, 4) + "}", "0123"),
              HasSubstr("a: expected 5 bytes for U8 of shape [5], found 4"));
  EXPECT_THAT(refusal_of_header("{" + entry("a", "[4294967296,4294967296]", 0, 4) + "}", "0123"),
              HasSubstr("a: a shape of more than 2^48 elements"));
  EXPECT_THAT(refusal_of_header("{" + entry("a", "[0,4294967296,4294967296]", 0, 0) + "}"),
              HasSubstr("a: a shape of more than 2^48 elements"));
  EXPECT_THAT(refusal_of_header("{" + entry("a", "[-1]", 0, 4) + "}", "0123"),
              HasSubstr("a: a size or place is not a number from 0 to 2^63 - 1"));
  EXPECT_THAT(refusal_of_header(R"({"a":{"dtype":"U9","shape":[],"data_offsets":[0,1]}})", "0"),
              HasSubstr("a: unknown type U9"));
  EXPECT_THAT(refusal_of_header(R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", "0"),
              HasSubstr("for F4 of shape [3]"));
  EXPECT_THAT(refusal_of_header(R"({"a":{"shape":[],"data_offsets":[0,1]}})", "0"),
              HasSubstr("a: it has no \"dtype\""));
  EXPECT_THAT(refusal_of_header(R"({"a":[]})"), HasSubstr("a: it has no \"dtype\""));
  EXPECT_THAT(refusal_of_header(R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0]}})", "0"),
              HasSubstr("two places"));
  EXPECT_THAT(refusal_of_header(R"({"__metadata__":{"n":1}})"), HasSubstr("expected texts only"));
  EXPECT_THAT(refusal_of_header("[]"), HasSubstr("does not begin with a brace"));
  EXPECT_THAT(refusal_of_header("{\"a\""), HasSubstr("is not JSON at byte"));
  EXPECT_THAT(refusal_of_header(R"({"a":{"b":{"c":{"d":{}}}}})"), HasSubstr("levels"));
  std::string long_header = file_with("{}");
  long_header[3] = '\x7f';
  EXPECT_THAT(refusal(long_header), HasSubstr("its header would have 2130706434 bytes"));
  EXPECT_EQ(refusal_of_header("{}"), "(nothing thrown)");
}

TEST_F(Safetensors, HashesTheWholeFile) {
  write_safetensors(folder / "one", {{{"a", Tensor::zeros({3})}}});
  write_safetensors(folder / "two", {{{"a", Tensor::full({3}, 1)}}});
  EXPECT_NE(SafetensorsFile(folder / "one").hash(), SafetensorsFile(folder / "two").hash());
}

}  // namespace
}  // namespace tasuki
