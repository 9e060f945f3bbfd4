// Sequences of different lengths in text files, one example per line: token numbers, or the bytes
// of a text. Batches are padded to their longest example and carry the lengths (Batch::lengths).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "dataset/data_source.hpp"

namespace tasuki {

struct SequenceOptions {
  // If not 0, each line begins with a label from 0 to classes - 1 and a blank or tab. It becomes
  // field "t", N int32.
  std::int64_t classes = 0;
  std::int64_t longest = 0;  // longer sequences are an error of kind data; 0: any length
  std::int32_t padding = 0;
  std::int64_t pad_to = 1;  // batches are padded to a multiple of it
};

// Lines of numbers from 0 to vocabulary - 1 with blanks or tabs in between. Field "x": N x length
// int32. Empty and blank lines are left out. Anything else, or a label without a sequence, is an
// error of kind data with file, line and value. The file may be gzip-compressed; its lines are
// counted at once.
std::unique_ptr<DataSource> open_token_lines(const std::filesystem::path& path,
                                             std::int64_t vocabulary,
                                             const SequenceOptions& options = {});

// Lines of text, read in the same way. Field "x": N x length int32, one byte per element (0 .. 255;
// text contains no 0).
std::unique_ptr<DataSource> open_text_lines(const std::filesystem::path& path,
                                            const SequenceOptions& options = {});

}  // namespace tasuki
