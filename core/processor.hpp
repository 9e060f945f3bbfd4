// The processor that this process runs on.
#pragma once

#include <string>

namespace tasuki {

// Its name as Linux says it ("AMD EPYC 9B14 96-Core Processor"), or "unknown processor".
std::string processor_name();

}  // namespace tasuki
