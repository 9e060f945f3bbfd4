// The processor that this process runs on.
#pragma once

#include <string>

namespace tasuki {

// Its name as Linux says it ("AMD EPYC 9B14 96-Core Processor"), or "unknown processor".
std::string processor_name();
// With what tells processors apart that have one name, as those of virtual machines:
// "AMD EPYC (family 25, model 17, stepping 1)".
std::string processor_type();

}  // namespace tasuki
