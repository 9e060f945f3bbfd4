// The bytes of a text as examples for a model that predicts the next one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "dataset/dataset.hpp"

namespace tasuki {

// The first `most` bytes (all, if they are fewer) of a file (plain or gzip), or of all files below
// a folder in the order of their paths, hidden ones left out. Reads nothing more. A path that does
// not exist is an error of kind missing; no bytes at all are an error of kind data.
std::string read_text(const std::filesystem::path& place, std::int64_t most);

// Consecutive windows: example i has the bytes i * length .. of the text in field "x" (length
// int32) and each one's next byte in field "t" (256 classes). An incomplete last window is dropped;
// so every byte except the first and the dropped ones is predicted once per epoch. A text shorter
// than a window is an error of kind data.
std::shared_ptr<const Dataset> text_windows(std::string text, std::int64_t length);

}  // namespace tasuki
