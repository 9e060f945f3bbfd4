#include "dataset/files/sequences.hpp"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "dataset/files/text_file.hpp"

namespace tasuki {
namespace {

constexpr std::string_view blanks = " \t";

// Removes and returns the first word of a line, with the blanks around it.
std::string_view take_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(blanks), line.size()));
  const std::string_view word = line.substr(0, line.find_first_of(blanks));
  line.remove_prefix(word.size());
  line.remove_prefix(std::min(line.find_first_not_of(blanks), line.size()));
  return word;
}

class SequenceSource : public DataSource {
 public:
  SequenceSource(const std::filesystem::path& path, DType stored, const SequenceOptions& options)
      : DataSource(header_of(path, stored, options)), file_(path) {}

 private:
  // Writes the line without its label.
  virtual void write(std::string_view line, FieldWriter& into) = 0;

  static DatasetHeader header_of(const std::filesystem::path& path, DType stored,
                                 const SequenceOptions& options) {
    DatasetHeader header{TextFile::count_lines(path),
                         {{.name = "x",
                           .shape = {options.longest},
                           .stored = stored,
                           .decoded = DType::int32,
                           .is_ragged = true,
                           .padding = static_cast<double>(options.padding),
                           .pad_to = options.pad_to}}};
    if (options.classes > 0)
      header.fields.push_back({.name = "t",
                               .stored = DType::int32,
                               .decoded = DType::int32,
                               .is_target = true,
                               .classes = options.classes});
    return header;
  }

  void read_next(std::span<FieldWriter> example) override {
    std::string_view line;
    if (!file_.next(line))
      fail(ErrorKind::data, "{}: expected another line, found the end; was the file changed?",
           file_.place());
    if (example.size() > 1) {
      example[1].as<std::int32_t>()[0] = static_cast<std::int32_t>(
          parse_integer(take_word(line), 0, example[1].field().classes - 1,
                        [this] { return file_.place() + ", label"; }));
      if (line.empty())
        fail(ErrorKind::data, "{}: expected a sequence after the label, found none", file_.place());
    }
    try {
      write(line, example[0]);
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("{}: {}", file_.place(), error.what()));
    }
  }
  void check_end() override {
    if (std::string_view line; file_.next(line))
      fail(ErrorKind::data, "{}: expected the end of the file, found another line; was it changed?",
           file_.place());
  }

  TextFile file_;
};

class TokenLines final : public SequenceSource {
 public:
  TokenLines(const std::filesystem::path& path, std::int64_t vocabulary,
             const SequenceOptions& options)
      : SequenceSource(path, DType::int32, options), vocabulary_(vocabulary) {}

 private:
  void write(std::string_view line, FieldWriter& into) override {
    tokens_.clear();
    while (!line.empty()) {
      const std::string_view word = take_word(line);
      if (word.empty()) break;
      tokens_.push_back(static_cast<std::int32_t>(parse_integer(word, 0, vocabulary_ - 1, [this] {
        return fmt::format("value {}", tokens_.size() + 1);
      })));
    }
    into.resize(std::ssize(tokens_));
    std::ranges::copy(tokens_, into.as<std::int32_t>().begin());
  }

  std::int64_t vocabulary_;
  std::vector<std::int32_t> tokens_;
};

class TextLines final : public SequenceSource {
 public:
  TextLines(const std::filesystem::path& path, const SequenceOptions& options)
      : SequenceSource(path, DType::uint8, options) {}

 private:
  void write(std::string_view line, FieldWriter& into) override {
    into.resize(std::ssize(line));
    std::ranges::copy(std::as_bytes(std::span(line)), into.bytes().begin());
  }
};

}  // namespace

std::unique_ptr<DataSource> open_token_lines(const std::filesystem::path& path,
                                             std::int64_t vocabulary,
                                             const SequenceOptions& options) {
  constexpr std::int64_t most = std::int64_t{1} << 31;
  if (vocabulary < 1 || vocabulary > most)
    fail(ErrorKind::usage, "expected a vocabulary of 1 to {} tokens, found {}", most, vocabulary);
  return std::make_unique<TokenLines>(path, vocabulary, options);
}

std::unique_ptr<DataSource> open_text_lines(const std::filesystem::path& path,
                                            const SequenceOptions& options) {
  return std::make_unique<TextLines>(path, options);
}

}  // namespace tasuki
