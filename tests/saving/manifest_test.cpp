// The manifest of a checkpoint: what is written is read, and nothing else is.
#include "saving/checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/hash.hpp"
#include "tests/support/errors.hpp"

namespace tasuki {
namespace {

using testing::error_of;
using testing::expect_error;
using ::testing::HasSubstr;

CheckpointManifest sample() {
  CheckpointManifest manifest;
  manifest.id = "0123456789abcdef0123456789abcdef";
  manifest.iteration = 600;
  manifest.epoch = 2;
  manifest.files = {
      {"state.npz",
       "",
       1234,
       0xfedcba9876543210,
       {{"updater/iteration", 7, {}}, {"a \"b\"", 8, {}}}},
      {"optimizer.0.npz", "", 99, 1, {{"m", 9, CheckpointManifest::Piece{{0, 7}, Shape{4, 5}}}}},
      {"optimizer.1.npz", "", 99, 2, {{"m", 9, CheckpointManifest::Piece{{7, 20}, Shape{4, 5}}}}},
      {"empty.npz", "", 0, 0, {}}};
  return manifest;
}

// A manifest of this text, with the right hash at its end.
std::string hashed(const std::string& text) {
  return text + "\"xxh3\": \"" + hash_digits(hash_text(text)) + "\"\n}\n";
}

// The sample with a part replaced.
std::string with(const std::string& part, const std::string& other) {
  std::string text = sample().text();
  text.resize(text.rfind("\"xxh3\""));
  const auto at = text.find(part);
  EXPECT_NE(at, text.npos) << part;
  return hashed(text.replace(at, part.size(), other));
}

TEST(CheckpointManifest, RoundTrips) {
  const std::string text = sample().text();
  EXPECT_EQ(CheckpointManifest::parse(text, "here"), sample());
  EXPECT_EQ(with("600", "600"), text);
  for (const CheckpointManifest::File& file : sample().files) {
    EXPECT_EQ(file_of_line(to_line(file)), file);
    EXPECT_EQ(to_line(file).find('\n'), std::string::npos);
  }
}

TEST(CheckpointManifest, RejectsFlippedBitsAndTruncation) {
  std::string text = sample().text();
  for (std::size_t bit = 0; bit < text.size() * 8; ++bit) {
    const char mask = static_cast<char>(1 << bit % 8);
    text[bit / 8] ^= mask;
    ASSERT_THAT(error_of([&] { CheckpointManifest::parse(text, "here"); }), HasSubstr("here"))
        << bit;
    text[bit / 8] ^= mask;
  }
  for (std::size_t bytes = 0; bytes < text.size(); ++bytes)
    expect_error(ErrorKind::data, {"here is damaged", "the hash of its text"},
                 [&] { CheckpointManifest::parse(text.substr(0, bytes), "here"); });
  expect_error(ErrorKind::data, {"here is damaged"},
               [&] { CheckpointManifest::parse(text + "\n", "here"); });
}

// Of other programs or versions, with hashes that are right.
TEST(CheckpointManifest, RejectsImpossibleContents) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {with("\"format\": 1", "\"format\": 2"), "it has format 2; this version of Tasuki reads 1"},
      {with("\"format\": 1,\n", ""), "it has no \"format\""},
      {with("600", "-600"), "its \"iteration\" is not a number from 0"},
      {with("600", "600.5"), "its \"iteration\" is not a number from 0"},
      {with("600", "9223372036854775808"), "its \"iteration\" is not a number from 0"},
      {with("600", "0600"), "it is not JSON at byte"},
      {with("600", "1e999"), "a number in it is too large"},
      {with("600", "\"600\""), "its \"iteration\" is not a number"},
      {with("\"parts\": 1", "\"parts\": 0"), "no files or no parts"},
      {with("0123456789abcdef0123", "0123456789ABCDEF0123"), "\"id\" is not 32 hexadecimal digits"},
      {with("fedcba9876543210", "fedcba987654321"), "\"hash\" is not 16 hexadecimal digits"},
      {with("fedcba9876543210", "fedcba987654321x"), "\"hash\" is not 16 hexadecimal digits"},
      {with("optimizer.1.npz", "optimizer.0.npz"), "optimizer.0.npz is there twice"},
      {with("optimizer.1.npz", "../optimizer.1.npz"), "is not a file name"},
      {with("optimizer.1.npz", "manifest.json"), "is not a file name"},
      {with("optimizer.1.npz", ""), "is not a file name"},
      {with("optimizer.1.npz", "a\\u0000b"), "is not a file name"},
      {with("a \\\"b\\\"", "updater/iteration"), "updater/iteration is there twice"},
      {with("\"end\": 20", "\"end\": 21"), "elements 7 to 21 of m (4x5) are not part of it"},
      {with("\"begin\": 7", "\"begin\": 21"), "are not part of it"},
      {with("[4, 5]", "[4294967296, 4294967296, 4294967296]"), "more than 2^63 - 1 elements"},
      {with("[4, 5]", "[1, 1, 1, 1, 1, 4, 5]"), "7 axes"},
      {with("[4, 5]", "[4, \"5\"]"), "its \"shape\" is not a number"},
      {with("[4, 5]", "20"), "its \"shape\" is not a list"},
      {with("\"epoch\": 2", "\"epoch\":  2"), "not in the form in which manifests are written"},
      {with("\"epoch\": 2", "\"epoch\": 2,\n\"more\": 3"), "not in the form"},
      {hashed("{\n\"files\": " + std::string(100'000, '[') + std::string(100'000, ']') + ",\n"),
       "more than 100 levels"},
      {hashed(""), "it is not JSON at byte"},
      {hashed("[1,\n"), "it is not JSON at byte"},
      {"", "the hash of its text"},
      {std::string(100, '\0'), "the hash of its text"}};
  for (const auto& [text, reason] : cases)
    expect_error(ErrorKind::data, {"here", reason},
                 [&text = text] { CheckpointManifest::parse(text, "here"); });
}

}  // namespace
}  // namespace tasuki
