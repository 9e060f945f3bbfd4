#include "tools/predict/labels.hpp"

#include <algorithm>
#include <charconv>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "dataset/files/idx.hpp"
#include "dataset/files/text_file.hpp"

namespace tasuki::predict {
namespace {

// Names take precedence, because they may be numbers.
std::int32_t label_of(std::string_view text, std::int64_t classes,
                      const std::vector<std::string>& class_names, const TextFile& file) {
  const auto named = std::ranges::find(class_names, text);
  if (named != class_names.end()) return static_cast<std::int32_t>(named - class_names.begin());
  std::int32_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 0 || number >= classes)
    fail(ErrorKind::data, "{}: expected {}a number from 0 to {}, found '{}'", file.place(),
         class_names.empty() ? "" : "the name of a class or ", classes - 1, quoted_input(text));
  return number;
}

}  // namespace

std::vector<std::int32_t> read_labels(const std::filesystem::path& file, std::int64_t classes,
                                      const std::vector<std::string>& class_names,
                                      std::int64_t examples, const std::string& place) {
  std::vector<std::int32_t> labels;
  switch (idx_contents(file)) {
    case IdxContents::labels:
      labels = read_idx_labels(file, classes);
      break;
    case IdxContents::images:
      fail(ErrorKind::data, "{}: expected labels, found images; they are given with --data",
           file.string());
    case IdxContents::nothing: {
      TextFile text(file);
      for (std::string_view line; text.next(line);)
        labels.push_back(label_of(line, classes, class_names, text));
    }
  }
  if (std::ssize(labels) != examples)
    fail(ErrorKind::data, "{}: expected {} labels, as many as examples in {}, found {}",
         file.string(), examples, place, labels.size());
  return labels;
}

std::vector<std::string> read_class_names(const std::filesystem::path& file, std::int64_t classes) {
  std::vector<std::string> names;
  TextFile text(file);
  for (std::string_view line; text.next(line);) names.emplace_back(line);
  if (std::ssize(names) != classes)
    fail(ErrorKind::data, "{}: expected the names of {} classes, one per line, found {}",
         file.string(), classes, names.size());
  return names;
}

}  // namespace tasuki::predict
