// The bytes of a text as examples for a model that predicts the next one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "dataset/dataset.hpp"

namespace tasuki {

// The first `most` bytes (all, if they are fewer) of a file (plain or gzip), or of all files below
// a folder in the order of their paths, hidden ones left out. Nothing behind them is read. A place
// that does not exist is an error of kind missing, one without any byte of kind data.
std::string read_text(const std::filesystem::path& place, std::int64_t most);

// Consecutive windows: example i has the bytes i * length .. of the text in field "x" (length
// int32) and each one's next byte in field "t" (256 classes). What is left at the end is left out,
// so every byte but the first and the rest is predicted once an epoch. A text without a whole
// window is an error of kind data.
std::shared_ptr<const Dataset> text_windows(std::string text, std::int64_t length);

}  // namespace tasuki
