// Text files: tables, sequences, lists of images, pairs of sentences, windows. A source has as many
// examples as its header says, numbers are finite and in range, and pairs are pairs.
#include <cmath>

#include "apps/seq2seq/text_pairs.hpp"
#include "dataset/files/csv.hpp"
#include "dataset/files/sequences.hpp"
#include "dataset/files/text_windows.hpp"
#include "dataset/images/image_list.hpp"
#include "fuzz.hpp"

using namespace tasuki;

namespace {

template <class T>
std::vector<T> values_of(const std::vector<std::byte>& bytes) {
  fuzz::require(bytes.size() % sizeof(T) == 0, "there is a part of a number");
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

void check_table(const std::filesystem::path& file, const CsvOptions& options) {
  const auto source = open_csv(file, options);
  const auto fields = fuzz::read_all(*source);
  for (const float value : values_of<float>(fields.at(0)))
    fuzz::require(std::isfinite(value), "a value of a table is not a finite number");
}

void check_tokens(const std::filesystem::path& file, std::int64_t vocabulary,
                  const SequenceOptions& options) {
  const auto fields = fuzz::read_all(*open_token_lines(file, vocabulary, options));
  for (const std::int32_t token : values_of<std::int32_t>(fields.at(0)))
    fuzz::require(token >= 0 && token < vocabulary, "a token is not in the vocabulary");
}

void check_pairs(const std::filesystem::path& source, const std::filesystem::path& target,
                 std::int64_t longest) {
  const seq2seq::TextPairs pairs = seq2seq::read_pairs(source, target, longest);
  fuzz::require(!pairs.source.empty() && pairs.source.size() == pairs.target.size(),
                "there are not as many sources as targets");
  for (const auto& side : {pairs.source, pairs.target})
    for (const auto& sentence : side)
      fuzz::require(!sentence.empty() && (longest == 0 || std::ssize(sentence) <= longest),
                    "a sentence has too few or too many words");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::uint8_t kind = input.number(), choice = input.number();
  const SequenceOptions options{.classes = choice % 3 * 5, .longest = choice / 3 % 3 * 4};
  static fuzz::InputFile first, second;
  first.write(input.part());
  second.write(input.rest());

  fuzz::accepts([&] {
    switch (kind % 6) {
      case 0:
        check_table(first.path(), {.t = choice % 2 == 0 ? std::vector<std::string>{"t"}
                                                        : std::vector<std::string>{},
                                   .classes = choice % 2 == 0 ? choice / 2 % 4 : 0,
                                   .separator = choice % 4 == 3 ? ';' : ','});
        break;
      case 1:
        check_tokens(first.path(), 1 + choice, options);
        break;
      case 2:
        fuzz::read_all(*open_text_lines(first.path(), options));
        break;
      case 3: {
        const ImageLists lists = read_image_lists(first.path(), second.path(), "root");
        fuzz::require(lists.train.size() == TextFile::count_lines(first.path()) &&
                          lists.test.size() == TextFile::count_lines(second.path()),
                      "there are not as many images as lines");
        for (const ImageList* const list : {&lists.train, &lists.test})
          for (const std::int32_t label : list->labels())
            fuzz::require(label >= 0 && label < lists.classes, "a label is not one of the classes");
        break;
      }
      case 4:
        check_pairs(first.path(), second.path(), choice % 8);
        break;
      default: {
        const std::string text = read_text(first.path(), 1 << 20);
        const auto windows = text_windows(text, 1 + choice);
        fuzz::require(windows->header().count == (std::ssize(text) - 1) / (1 + choice),
                      "there are not as many windows as fit the text");
      }
    }
  });
  return 0;
}
