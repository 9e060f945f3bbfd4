// Text that a model makes up.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "models/gpt.hpp"

namespace tasuki::lm {

// `prompt` (at least one byte) and `bytes` more. Each byte is drawn from the softmax of the scores
// divided by `temperature`; 0: the most likely one. A function of the weights and the seed. The
// model sees the last bytes that fit into its context; while all do, a byte costs one position.
std::string sample_text(Gpt& model, const std::string& prompt, std::int64_t bytes,
                        double temperature, std::uint64_t seed);
// The same by scores (256, float32, on the host) of the byte that follows a text.
using ScoresAfter = std::function<Tensor(const std::string& text)>;
std::string sample_text(const ScoresAfter& scores_after, const std::string& prompt,
                        std::int64_t bytes, double temperature, std::uint64_t seed);

// A text as one can print it: bytes that are no printable ASCII and no line ends as \xNN.
std::string printable(const std::string& text);

}  // namespace tasuki::lm
