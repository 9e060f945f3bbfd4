// The text from which train_lm learns, and how well a model predicts a text.
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

// A dictionary of 40 MB from the package dict-gcide.
inline constexpr const char* default_text = "/usr/share/dictd/gcide.dict.dz";
// The value of --data for this dictionary.
inline constexpr const char* default_text_name = "the package dict-gcide's dictionary";
// The part of it with which a run takes minutes.
inline constexpr std::int64_t default_text_bytes = 4'000'000;
inline constexpr std::int64_t most_text_bytes = std::int64_t{1} << 32;

struct TrainingText {
  std::shared_ptr<const Dataset> windows;  // text_windows() of `context` bytes
  std::string origin;                      // "the first 2000 bytes of shakespeare.txt"
};
// The first `bytes` bytes (0: all) of a file or folder, or of the default text; by default all of a
// file or folder, and default_text_bytes of the default text. More than most_text_bytes, or fewer
// than 10 windows, are errors of kind data.
TrainingText read_training_text(const std::optional<std::string>& place,
                                std::optional<std::int64_t> bytes, std::int64_t context);
// The windows that training holds out, every tenth block of up to 256 windows, or the rest.
std::shared_ptr<const Dataset> part_of(const std::shared_ptr<const Dataset>& windows,
                                       bool is_held_out);

// The settings of train_lm's model from the shapes of its weights, by path. Shapes do not determine
// `heads`, nor whether it is GPT-2's. Weights of another model are an error of kind data; heads
// that do not fit are one of kind usage.
GptSettings settings_of(const std::map<std::string, Shape>& weights, std::int64_t heads);

// The number of bits of a code with the model's probabilities for all bytes of field "t", and the
// number of these bytes. Their quotient is bits per byte; for several ranks, divide the sums.
struct CodeLength {
  double bits = 0;
  std::int64_t bytes = 0;
};
// For one epoch of `batches` of text_windows() examples.
CodeLength code_length(Gpt& model, Iterator& batches);

}  // namespace tasuki::lm
