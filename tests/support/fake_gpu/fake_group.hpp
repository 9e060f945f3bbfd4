// A group of fake GPUs, over MPI.
#pragma once

#include <functional>
#include <memory>

#include "communicator/bytes.hpp"
#include "communicator/gpu/gpu_transport.hpp"

namespace tasuki::testing {

Bytes new_fake_id();
// Operations are handed to `later`, to be done in their order.
std::unique_ptr<GpuGroup> connect_fake_group(const Bytes& id, int rank, int ranks,
                                             std::function<void(std::function<void()>)> later);

}  // namespace tasuki::testing
