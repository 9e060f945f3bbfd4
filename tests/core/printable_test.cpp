#include "core/printable.hpp"

#include <gtest/gtest.h>

namespace tasuki {
namespace {

TEST(Printable, ReplacesControlCharacters) {
  EXPECT_EQ(printable("two\nlines\x1b[2J\x7f"), "two?lines?[2J?");
  EXPECT_EQ(printable("grüße"), "grüße");
  EXPECT_EQ(printable(""), "");
}

// As a byte of its own, as 8-bit terminals understand it, and in UTF-8.
TEST(Printable, ReplacesC1Characters) {
  EXPECT_EQ(printable("a\u009b31mb\u0080\u009f"), "a?31mb??");
  EXPECT_EQ(printable("a\x9b"
                      "31mb\x90"),
            "a?31mb?");
  EXPECT_EQ(printable("\u00a0 caf\xe9 \u0420 \xe2\x9b\xb5"), "\u00a0 caf\xe9 \u0420 \xe2\x9b\xb5");
}

TEST(Printable, KeepsLineEnds) {
  EXPECT_EQ(printable_lines("one\x1b[m\r\ntwo\n"), "one?[m?\ntwo\n");
}

TEST(Printable, TruncatesBetweenCharacters) {
  EXPECT_EQ(printable("grüße", 3), "gr...");
  EXPECT_EQ(printable("grüße", 4), "grü...");
}

TEST(Printable, TruncatesInputAndMessages) {
  EXPECT_EQ(quoted_input(std::string(50, 'x')), std::string(40, 'x') + "...");
  EXPECT_EQ(message_line("two\nlines"), "two?lines");
  EXPECT_LT(message_line(std::string(1 << 20, 'x')).size(), 10'000U);
}

TEST(Printable, TruncatesText) {
  EXPECT_EQ(printable("abcdef", 4), "abcd...");
  EXPECT_EQ(printable("abcd", 4), "abcd");
}

}  // namespace
}  // namespace tasuki
