// Lists and numbers in texts.
#include "core/text_parts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tasuki {
namespace {

using ::testing::ElementsAre;

TEST(TextParts, MayBeEmpty) {
  EXPECT_THAT(text_parts("a", ','), ElementsAre("a"));
  EXPECT_THAT(text_parts("a,bc", ','), ElementsAre("a", "bc"));
  EXPECT_THAT(text_parts("a b:c", ':'), ElementsAre("a b", "c"));
  EXPECT_THAT(text_parts("", ','), ElementsAre(""));
  EXPECT_THAT(text_parts(",a,,", ','), ElementsAre("", "a", "", ""));
}

TEST(TextWords, AreNeverEmpty) {
  EXPECT_THAT(text_words(" a\tbc \r\n'd e'"), ElementsAre("a", "bc", "'d", "e'"));
  EXPECT_THAT(text_words("a"), ElementsAre("a"));
  EXPECT_THAT(text_words(""), ElementsAre());
  EXPECT_THAT(text_words(" \n"), ElementsAre());
}

TEST(NumberIn, IsTheWholeText) {
  EXPECT_EQ(number_in<int>("-12"), -12);
  EXPECT_EQ(number_in<double>("1e-3"), 1e-3);
  for (const char* const bad : {"", " 1", "1 ", "+1", "1x", "x", "99999999999"})
    EXPECT_EQ(number_in<int>(bad), std::nullopt) << bad;
}

}  // namespace
}  // namespace tasuki
