// The links between a job's machines and inside them, measured once per output folder.
#pragma once

#include <filesystem>

#include "communicator/algorithms/link_probe.hpp"
#include "training/output_folder.hpp"

namespace tasuki::program {

// A file of the output folder: {"hosts": [host of each rank], "latency": seconds,
// "bytes_per_second": ..., "inside": {"latency": ..., "bytes_per_second": ...}}. Levels that the
// job does not have are left out.
inline constexpr const char* link_file = "link.json";

// Measures the links (probe_links), or takes the values that an earlier run with the same ranks on
// the same hosts left in `folder`, so that a repeated or resumed run chooses the same algorithms.
// The result is the same on all ranks. Collective.
Links find_links(Communicator& communicator, const std::filesystem::path& folder);

// Saves `links` in the folder for later runs. Collective.
void keep_links(Communicator& communicator, const Links& links, OutputFolder& output);

}  // namespace tasuki::program
