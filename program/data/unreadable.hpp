// Examples that cannot be read, found before training: --check-data and --skip-damaged.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "program/data/data.hpp"

namespace tasuki::program {

// Stands for an image file that was left out, in snapshots.
std::int64_t key_of_left_out(const std::string& split, const std::string& name);

// Leaves out the images of a split that cannot be read, and says how many. `split_name`: "train" or
// "test". `base`: to which names in SplitData::left_out are relative. `known`: keys, ascending, of
// those that the resumed run left out, which are left out again whatever they are now; else all
// files are decoded. Ranks that see the files decode a part each: all ranks of streamed images,
// otherwise those on the host of rank 0. Collective.
void leave_out_unreadable(SplitData& split, const std::string& split_name,
                          const std::filesystem::path& base,
                          const std::optional<std::vector<std::int64_t>>& known,
                          Communicator& communicator, int threads);

// Reads all examples: decodes image files, in the same way, and looks at the labels of other data.
// What cannot be read is an error on all ranks, before which rank 0 lists all files of all splits,
// one a line; files that lack nothing but their end are a warning. Collective.
void check_all_examples(std::span<SplitData* const> splits, Communicator& communicator,
                        int threads);

}  // namespace tasuki::program
