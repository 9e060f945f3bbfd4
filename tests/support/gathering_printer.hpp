// GoogleTest's report under mpirun: rank 0 prints, once, with the failures of all ranks.
#pragma once

namespace tasuki::testing {

// Collective. Other ranks' failures appear in rank 0's report, marked with rank and host, and make
// its test fail.
void gather_failures_on_rank_0();

}  // namespace tasuki::testing
