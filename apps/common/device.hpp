// Which device a rank computes on.
#pragma once

#include <string>

#include "tasuki/communicator/topology.hpp"
#include "tasuki/tensor/device.hpp"

namespace tasuki::apps {

// For `--gpu` ("none", "auto": by the rank's number within its node, or a number). GPUs that cannot
// be used are an error of kind unavailable that says what is missing.
Device select_device(const std::string& gpu, const Topology& topology);

}  // namespace tasuki::apps
