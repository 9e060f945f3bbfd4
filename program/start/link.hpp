// The link between a job's machines, measured once per output folder.
#pragma once

#include <filesystem>
#include <optional>

#include "tasuki/communicator/communicator.hpp"
#include "tasuki/program/flags/options.hpp"
#include "tasuki/program/training_settings.hpp"
#include "tasuki/training/output_folder.hpp"

namespace tasuki::program {

// In an output folder: {"hosts": [of each rank], "latency": seconds, "bytes_per_second": ...}.
inline constexpr const char* link_file = "link.json";

// --probe
void add_probe_flag(Options& options, LinkProbe& probe);

// Measures the link (probe_link), or takes what an earlier run of the same ranks on the same hosts
// measured and left in `folder`, so that a run that is repeated or continued there chooses the same
// algorithms. Nothing if all ranks are on one machine. The same on all ranks. Collective.
std::optional<Link> find_link(Communicator& communicator, const std::filesystem::path& folder);

// Leaves `link` in the folder for later runs. Collective.
void keep_link(Communicator& communicator, const Link& link, OutputFolder& output);

}  // namespace tasuki::program
