#include "core/error.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "core/hash.hpp"

namespace tasuki {
namespace {

// The error that `action` throws.
template <class Action>
Error thrown_by(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorKind::internal, "");
}

TEST(Error, CarriesKindScopeAndExitCode) {
  const Error here = thrown_by([] { fail(ErrorKind::data, "{} of {}", 3, "four"); });
  EXPECT_STREQ(here.what(), "3 of four");
  EXPECT_EQ(here.kind(), ErrorKind::data);
  EXPECT_EQ(here.scope(), ErrorScope::this_rank);
  EXPECT_EQ(here.exit_code(), 65);
  const Error everywhere = thrown_by([] { fail_everywhere(ErrorKind::usage, "flag"); });
  EXPECT_EQ(everywhere.scope(), ErrorScope::every_rank);
  EXPECT_EQ(everywhere.exit_code(), 64);
}

TEST(Error, CheckReportsConditionPlaceAndMessage) {
  const int found = 2;
  EXPECT_NO_THROW(TASUKI_CHECK(found == 2, "not reached"));
  const Error error = thrown_by([&] { TASUKI_CHECK(found == 3, "found {}", found); });
  const std::string text = error.what();
  EXPECT_NE(text.find("found == 3"), std::string::npos) << text;
  EXPECT_NE(text.find("error_test.cpp"), std::string::npos) << text;
  EXPECT_NE(text.find("found 2"), std::string::npos) << text;
  EXPECT_EQ(text.find('\n'), std::string::npos) << "an error is one line";
  EXPECT_EQ(error.kind(), ErrorKind::internal);
}

TEST(CheckedCast, KeepsValuesThatFit) {
  EXPECT_EQ(checked_cast<int>(std::int64_t{2147483647}, "count"), 2147483647);
  EXPECT_EQ(checked_cast<int>(std::int64_t{-2147483648}, "count"), -2147483647 - 1);
  EXPECT_EQ(checked_cast<std::uint8_t>(255, "byte"), 255);
  EXPECT_EQ(checked_cast<std::size_t>(std::int64_t{7}, "count"), 7u);
}

TEST(CheckedCast, NamesValuesThatDoNotFit) {
  const Error error =
      thrown_by([] { checked_cast<int>(std::int64_t{2147483648}, "number of elements"); });
  EXPECT_NE(std::string(error.what()).find("number of elements = 2147483648"), std::string::npos);
  EXPECT_THROW(checked_cast<std::size_t>(-1, "count"), Error);
  EXPECT_THROW(checked_cast<std::uint8_t>(256, "byte"), Error);
  EXPECT_THROW(checked_cast<std::int64_t>(std::numeric_limits<std::uint64_t>::max(), "n"), Error);
}

TEST(Hash, AgreesForTextAndBytes) {
  const std::string text = "predictor/l1/W";
  EXPECT_EQ(hash_text(text), hash_bytes(std::as_bytes(std::span(text))));
  EXPECT_NE(hash_text(text), hash_text("predictor/l1/b"));
  EXPECT_NE(hash_bytes(std::as_bytes(std::span(text)), 1), hash_text(text));
  // XXH3 of nothing, from the reference implementation: names in files must not change.
  EXPECT_EQ(hash_text(""), 0x2D06800538D394C2ull);
}

}  // namespace
}  // namespace tasuki
