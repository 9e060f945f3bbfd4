// Examples that cannot be read, found before training: --check-data and --skip-damaged.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "program/data/training_data.hpp"

namespace tasuki::program {

// The key by which snapshots record an image file that was left out.
std::int64_t key_of_left_out(const std::string& split, const std::string& name);

// Leaves out a split's images that cannot be read, and says how many. `split_name`: "train" or
// "test". Names in SplitData::left_out are relative to `base`. `known`: the keys, ascending, that
// the resumed run left out; these are left out again, whatever the files are now. Without it, all
// files are decoded, divided among the ranks that see them: all ranks if images are streamed, else
// those on rank 0's host. Collective.
void leave_out_unreadable(SplitData& split, const std::string& split_name,
                          const std::filesystem::path& base,
                          const std::optional<std::vector<std::int64_t>>& known,
                          Communicator& communicator, int threads);

// Reads all examples: decodes image files, divided among the ranks in the same way, and checks the
// labels of other data. If anything cannot be read, rank 0 lists all such files of all splits, one
// per line, and all ranks throw an error; files that lack only their end are a warning. Collective.
void check_all_examples(std::span<SplitData* const> splits, Communicator& communicator,
                        int threads);

}  // namespace tasuki::program
