// Pairs of sentences in two text files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "dataset/files/text_file.hpp"

namespace tasuki::seq2seq {

// Reads two files with one sentence per line in step, so that neither has to fit in memory. Words
// are separated by ASCII white space; files are plain or gzip-compressed, in UTF-8 or another
// encoding that extends ASCII. Pairs in which a sentence has no words, or more than `longest` (0:
// any number), are left out.
class PairReader {
 public:
  PairReader(const std::filesystem::path& source, const std::filesystem::path& target,
             std::int64_t longest);

  // The next pair; false at the end. Files without pairs, with different numbers of lines, or with
  // zero bytes (UTF-16) are errors of kind data.
  bool next();
  // The words of the pair; valid until the next call.
  const std::vector<std::string_view>& source() const { return source_.words; }
  const std::vector<std::string_view>& target() const { return target_.words; }
  // Pairs that were left out so far because of their lengths.
  std::int64_t too_long() const { return too_long_; }

 private:
  // A file's next line with words.
  struct Side {
    std::filesystem::path path;
    TextFile file;
    std::vector<std::string_view> words = {};
    bool has_sentences = false;

    bool next();
  };
  bool fits(const Side& side) const;
  // Reads the rest, and throws if the files do not fit each other.
  void finish();

  Side source_, target_;
  std::int64_t longest_, pairs_ = 0, too_long_ = 0;
};

struct TextPairs {
  std::vector<std::vector<std::string>> source, target;  // words; equally many sentences
};
// All pairs of such files.
TextPairs read_pairs(const std::filesystem::path& source, const std::filesystem::path& target,
                     std::int64_t longest);

}  // namespace tasuki::seq2seq
