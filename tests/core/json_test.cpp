#include "core/json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/error.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/json.hpp"

namespace tasuki {
namespace {

using nlohmann::json;
using testing::expect_error;

std::string nested(int levels) {
  const auto count = static_cast<std::size_t>(levels);
  return std::string(count, '[') + std::string(count, ']');
}

TEST(Json, RoundTripsTextOfAnyBytes) {
  const json value = {{"caf\xe9", {"a\x80z", "grüße", "\xff\xfe", 3}}, {"plain", nullptr}};
  const std::string text = json_text(value);
  EXPECT_TRUE(json::accept(text)) << text;
  EXPECT_EQ(parse_json(text, "here"), value);
  EXPECT_EQ(parse_json(json_text(value, 2), "here"), value);
  EXPECT_EQ(json_text(parse_ordered_json(R"({"b":1,"a":"é"})", "here")), R"({"b":1,"a":"é"})");
}

// Also where another program has written the characters as escapes.
TEST(Json, ReadsEscapedPrivateCharactersAsBytes) {
  EXPECT_EQ(parse_json(R"("caf\udbff\udfe9")", "here"), "caf\xe9");
}

TEST(Json, EscapesControlCharacters) {
  const std::string text = json_text(json{"\x1b[2J", "\u009b2J", "\x7f", "ok \u00a0"});
  EXPECT_EQ(text, R"(["\u001b[2J","\u009b2J","\u007f","ok )"
                  "\u00a0\"]");
  EXPECT_EQ(parse_json(text, "here")[1], "\u009b2J");
}

TEST(Json, WritesNonFiniteNumbersAsNull) {
  EXPECT_EQ(json_text(json{std::numeric_limits<double>::infinity(), std::nan("")}), "[null,null]");
}

TEST(Json, ReportsDamageInOneLine) {
  for (const char* text : {"", "{", "[1,]", "\"\xff\"", "{\"a\":1}x", "nul"})
    expect_error(ErrorKind::data, {"about.json is damaged: it is not JSON at byte"},
                 [&] { parse_json(text, "about.json"); });
  expect_error(ErrorKind::data, {"a number in it is too large"},
               [] { parse_json("[1e999]", "about.json"); });
}

TEST(Json, LimitsDepth) {
  EXPECT_EQ(json_text(parse_json(nested(100), "here")), nested(100));
  for (const int levels : {101, 200'000})
    expect_error(ErrorKind::data, {"here: it has more than 100 levels"},
                 [&] { parse_json(nested(levels), "here"); });
  std::string objects;
  for (int i = 0; i < 101; ++i) objects += "{\"a\":";
  expect_error(ErrorKind::data, {"100 levels"}, [&] { parse_json(objects, "here"); });
}

// Each takes 16 bytes and more, whatever its text has.
TEST(Json, LimitsNumberOfValues) {
  const JsonLimits limits{.values = 5};
  EXPECT_EQ(parse_json(R"([0, {"a": [], "b": 1}])", "here", limits).size(), 2U);
  for (const char* text : {"[0, 1, 2, 3, 4]", "[[], [], {}, [], []]", R"({"a": [{}, {}, 0, 0]})"})
    expect_error(ErrorKind::data, {"here: it has more than 5 values"},
                 [&] { parse_json(text, "here", limits); });
  EXPECT_GE(limits_of_logs.values, 4'000'000);
  // As text it is 3 bytes for a value, compressed almost nothing.
  std::string repeated = "[";
  for (std::int64_t i = 0; i < JsonLimits().values; ++i) repeated += "{},";
  repeated += "{}]";
  expect_error(ErrorKind::data, {"here: it has more than 1048576 values"},
               [&] { parse_json(repeated, "here"); });
}

// A time that grew with the square of their number would be minutes.
TEST(Json, ReadsLongListsInLinearTime) {
  constexpr std::size_t count = 300'000;
  std::string text = "[{}";
  for (std::size_t i = 1; i < count; ++i) text += ",{}";
  EXPECT_EQ(parse_json(text + "]", "here").size(), count);
}

TEST(Json, ChecksIntegers) {
  EXPECT_EQ(integer_in(json(7)), 7);
  EXPECT_EQ(integer_in(json(-1), -1), -1);
  EXPECT_EQ(integer_in(json(INT64_MAX)), INT64_MAX);
  for (const json& other : {json(-1), json(1.0), json("1"), json(nullptr), json(1e300),
                            json(std::numeric_limits<std::uint64_t>::max()), json::array({1})})
    EXPECT_FALSE(integer_in(other)) << other;
  EXPECT_FALSE(integer_in(json(INT64_MIN)));
  EXPECT_FALSE(integer_in(json(11), 0, 10));
}

}  // namespace
}  // namespace tasuki
