#include "core/utf8.hpp"

#include <gtest/gtest.h>

namespace tasuki {
namespace {

TEST(Utf8, LengthsFollowTheStandard) {
  for (const char* text : {"a", "ü", "→", "🙂", "\xf4\x8f\xbf\xbf"})
    EXPECT_EQ(utf8_length(text), std::string(text).size()) << text;
  EXPECT_EQ(utf8_length("üx"), 2U);
  EXPECT_EQ(utf8_length(""), 0U);
}

// Lone and missing parts, forms that are too long, halves of surrogate pairs, beyond U+10FFFF.
TEST(Utf8, RejectsInvalidSequences) {
  for (const char* text :
       {"\x80", "\xff", "\xc3", "\xc3(", "\xe2\x82", "\xf0\x9f\x99", "\xc0\xaf", "\xe0\x80\xaf",
        "\xf0\x80\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80"})
    EXPECT_EQ(utf8_length(text), 0U) << ::testing::PrintToString(std::string(text));
}

TEST(Utf8, KeepsValidText) {
  for (const char* text : {"", "plain", "grüße → 🙂", "100%"}) {
    EXPECT_EQ(to_utf8(text), text);
    EXPECT_EQ(from_utf8(text), text);
  }
}

TEST(Utf8, MapsInvalidBytesToPrivateCharacters) {
  EXPECT_EQ(to_utf8("caf\xe9"), "caf\xf4\x8f\xbf\xa9");  // U+10FFE9
  EXPECT_EQ(to_utf8("\x80"), "\xf4\x8f\xbe\x80");        // U+10FF80
}

// Every text of two bytes, whatever stands around them.
TEST(Utf8, RoundTripsAllBytes) {
  for (int one = 0; one < 256; ++one)
    for (int other = 0; other < 256; ++other) {
      const std::string bytes{'a', static_cast<char>(one), static_cast<char>(other), '\xbf', 'b'};
      const std::string text = to_utf8(bytes);
      ASSERT_EQ(from_utf8(text), bytes) << one << " " << other;
      for (std::string_view rest = text; !rest.empty(); rest.remove_prefix(utf8_length(rest)))
        ASSERT_GT(utf8_length(rest), 0U) << one << " " << other;
    }
}

// Or they would come back as bytes.
TEST(Utf8, RoundTripsReservedPrivateCharacters) {
  for (const char* text : {"\xf4\x8f\xbe\x80", "x\xf4\x8f\xbf\xbfy", "\xf4\x8f\xbe"}) {
    EXPECT_NE(to_utf8(text), text);
    EXPECT_EQ(from_utf8(to_utf8(text)), text);
    EXPECT_EQ(from_utf8(to_utf8(to_utf8(text))), to_utf8(text));
  }
}

TEST(Utf8, DecodesUnicodeCharacters) {
  const std::u32string characters = U"aü→🙂\U0010ffff\u07ff\u0800\uffff";
  const std::string text = "aü→🙂\xf4\x8f\xbf\xbf\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf";
  EXPECT_EQ(characters_of(text), characters);
  EXPECT_EQ(text_of(characters), text);
  EXPECT_EQ(characters_of("a\xff"), U"a\ufffd");
  EXPECT_EQ(text_of(std::u32string{0xd800, 0xdfff, 0x110000, 0xffffffff}),
            "\ufffd\ufffd\ufffd\ufffd");
}

}  // namespace
}  // namespace tasuki
