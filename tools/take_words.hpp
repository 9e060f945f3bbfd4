// take_words: `PROGRAM WORD... --flags`.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace tasuki {

// Takes the words before the first flag out of the arguments.
inline std::vector<std::string> take_words(std::vector<std::string>& arguments) {
  const auto end = std::ranges::find_if(
      arguments, [](const std::string& word) { return word.starts_with('-'); });
  std::vector<std::string> words(arguments.begin(), end);
  arguments.erase(arguments.begin(), end);
  return words;
}

}  // namespace tasuki
