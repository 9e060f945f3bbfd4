// The links between a job's machines and inside them, measured once per output folder.
#pragma once

#include <filesystem>

#include "communicator/algorithms/link_probe.hpp"
#include "training/output_folder.hpp"

namespace tasuki::program {

// In an output folder: {"hosts": [of each rank], "latency": seconds, "bytes_per_second": ...,
// "inside": {"latency": ..., "bytes_per_second": ...}}, without the numbers of a level that the
// job does not have.
inline constexpr const char* link_file = "link.json";

// Measures the links (probe_links), or takes what an earlier run of the same ranks on the same
// hosts measured and left in `folder`, so that a run that is repeated or continued there chooses
// the same algorithms. The same on all ranks. Collective.
Links find_links(Communicator& communicator, const std::filesystem::path& folder);

// Leaves `links` in the folder for later runs. Collective.
void keep_links(Communicator& communicator, const Links& links, OutputFolder& output);

}  // namespace tasuki::program
