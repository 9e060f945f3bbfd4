// The processor that this process runs on.
#pragma once

#include <string>

namespace tasuki {

// Its name as Linux says it ("AMD EPYC 9B14 96-Core Processor"), or "unknown processor".
std::string processor_name();
// Its name, family, model and stepping. Virtual machines often give different processors one name.
// "AMD EPYC (family 25, model 17, stepping 1)".
std::string processor_type();

}  // namespace tasuki
