// Ends a job whose test hangs, and says which test it was.
#pragma once

namespace tasuki::testing {

// From now on a test that takes longer than 60 s times patience() ends the job; each rank names the
// test it is in and what failed in it so far.
void watch_for_hangs();

}  // namespace tasuki::testing
