// Lists in texts.
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

}  // namespace
}  // namespace tasuki
