// The text that train_lm learns from, and how well a model predicts a text.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "dataset/dataset.hpp"
#include "dataset/iterators/iterator.hpp"
#include "models/gpt.hpp"

namespace tasuki::lm {

// A dictionary of 40 MB, from the package dict-gcide.
inline constexpr const char* default_text = "/usr/share/dictd/gcide.dict.dz";
// The value of --data that stands for it.
inline constexpr const char* default_text_name = "the package dict-gcide's dictionary";
// How much of it makes a run of minutes.
inline constexpr std::int64_t default_text_bytes = 4'000'000;
inline constexpr std::int64_t most_text_bytes = std::int64_t{1} << 32;

struct TrainingText {
  std::shared_ptr<const Dataset> windows;  // text_windows() of `context` bytes
  std::string origin;                      // "the first 2000 bytes of shakespeare.txt"
};
// The first `bytes` bytes (0: all) of a file or folder, or of the default text; by default all of
// the former, and default_text_bytes of the latter. More than most_text_bytes, or fewer than 10
// windows, are errors of kind data.
TrainingText read_training_text(const std::optional<std::string>& place,
                                std::optional<std::int64_t> bytes, std::int64_t context);
// What training holds out of them, every tenth block of up to 256 windows, or the rest.
std::shared_ptr<const Dataset> part_of(const std::shared_ptr<const Dataset>& windows,
                                       bool is_held_out);

// The settings of train_lm's model whose weights have these shapes, by path; they do not tell the
// heads. Weights of another model are an error of kind data, heads that do not fit of kind usage.
GptSettings settings_of(const std::map<std::string, Shape>& weights, std::int64_t heads);

// How many bits a code by the model's probabilities takes for all bytes of field "t", and how many
// bytes these are: bits per byte are their quotient, over ranks that of the sums.
struct CodeLength {
  double bits = 0;
  std::int64_t bytes = 0;
};
// Of one epoch of `batches`, examples of text_windows().
CodeLength code_length(Gpt& model, Iterator& batches);

}  // namespace tasuki::lm
