// Text that a model makes up.
#pragma once

#include <cstdint>
#include <string>

#include "tasuki/models/gpt.hpp"

namespace tasuki::lm {

// `prompt` (at least one byte) and `bytes` more. Each byte is drawn from the softmax of the scores
// divided by `temperature`; 0: the most likely one. A function of the weights and the seed. The
// model sees the last bytes that fit into its context.
std::string sample_text(Gpt& model, const std::string& prompt, std::int64_t bytes,
                        double temperature, std::uint64_t seed);

// The same as one can print: bytes that are no printable ASCII and no line ends as \xNN.
std::string printable(const std::string& text);

}  // namespace tasuki::lm
