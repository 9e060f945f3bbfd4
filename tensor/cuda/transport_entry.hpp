// A function of the library that this folder cannot include.
#pragma once

namespace tasuki {

// In communicator/cuda: registers the transport between GPUs (communicator/gpu/gpu_transport.hpp).
void register_nccl_transport();

}  // namespace tasuki
