#include "apps/seq2seq/text_pairs.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace tasuki::seq2seq {
namespace {

void split(std::string_view line, std::vector<std::string_view>& words) {
  constexpr std::string_view blanks = " \t\r\v\f";
  words.clear();
  for (std::size_t at = 0; (at = line.find_first_not_of(blanks, at)) != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(blanks, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
}

}  // namespace

bool PairReader::Side::next() {
  for (std::string_view line; file.next(line);) {
    if (line.find('\0') != std::string_view::npos)
      fail(ErrorKind::data,
           "{}: expected text in UTF-8, found a byte of value 0; convert UTF-16 with iconv",
           file.place());
    split(line, words);
    if (!words.empty()) return has_sentences = true;
  }
  return false;
}

PairReader::PairReader(const std::filesystem::path& source, const std::filesystem::path& target,
                       std::int64_t longest)
    : source_{source, TextFile(source)}, target_{target, TextFile(target)}, longest_(longest) {}

bool PairReader::fits(const Side& side) const {
  return longest_ == 0 || std::ssize(side.words) <= longest_;
}

bool PairReader::next() {
  while (source_.next() && target_.next()) {
    while (source_.file.number() != target_.file.number()) {
      Side& behind = source_.file.number() < target_.file.number() ? source_ : target_;
      if (!behind.next()) {
        finish();
        return false;
      }
    }
    if (fits(source_) && fits(target_)) {
      ++pairs_;
      return true;
    }
    ++too_long_;
  }
  finish();
  return false;
}

void PairReader::finish() {
  for (Side* const side : {&source_, &target_}) {
    while (side->next()) continue;
    if (!side->has_sentences)
      fail(ErrorKind::data, "{}: expected sentences, one per line, found none",
           side->path.string());
  }
  if (source_.file.number() != target_.file.number())
    fail(ErrorKind::data,
         "{} has {} lines and {} has {}: expected the same number, line i of one translating "
         "line i of the other",
         source_.path.string(), source_.file.number(), target_.path.string(),
         target_.file.number());
  if (pairs_ == 0)
    fail(ErrorKind::data, "{} and {}: expected pairs of sentences, found none with {}",
         source_.path.string(), target_.path.string(),
         longest_ == 0 ? "words on both sides"
                       : fmt::format("1 to {} words each; raise --max-length", longest_));
}

TextPairs read_pairs(const std::filesystem::path& source, const std::filesystem::path& target,
                     std::int64_t longest) {
  TextPairs pairs;
  for (PairReader reader(source, target, longest); reader.next();) {
    pairs.source.emplace_back(reader.source().begin(), reader.source().end());
    pairs.target.emplace_back(reader.target().begin(), reader.target().end());
  }
  return pairs;
}

}  // namespace tasuki::seq2seq
