#include "tasuki/core/printable.hpp"

#include <gtest/gtest.h>

namespace tasuki {
namespace {

TEST(Printable, TextHasNoControlCharacters) {
  EXPECT_EQ(printable("two\nlines\x1b[2J\x7f"), "two?lines?[2J?");
  EXPECT_EQ(printable("grüße"), "grüße");
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, TextIsCut) {
  EXPECT_EQ(printable("abcdef", 4), "abcd...");
  EXPECT_EQ(printable("abcd", 4), "abcd");
}

}  // namespace
}  // namespace tasuki
