// What the simulated cuDNN does not support, as a test says in the environment:
//
//   SIMULATED_CUDNN_REFUSES="MOMENT ALGORITHM FORMAT STATUS"
//
// MOMENT: `ask` (which algorithms there are), `offer` (an algorithm in the answer), `workspace` or
// `run`; ALGORITHM: its number, or `any`; FORMAT: `plain`, `channels_last` or `any`; STATUS: the
// number of the cudnnStatus_t that is answered. Read at each call.
#pragma once

#include <cudnn.h>

namespace tasuki::simulated {

enum class Moment { ask, offer, workspace, run };

// CUDNN_STATUS_SUCCESS when that is supported. `algorithm`: -1 where none is meant.
cudnnStatus_t refusal(Moment moment, int algorithm, cudnnTensorFormat_t format);

}  // namespace tasuki::simulated
