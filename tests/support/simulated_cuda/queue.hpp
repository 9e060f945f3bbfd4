// Streams, events and graphs of the simulated GPU. What is queued is done as late as it may: when
// somebody waits for it, or a few milliseconds later. A wait that is missing therefore shows as
// values that are not there yet.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

#include "guarded_device/guarded_memory.hpp"

namespace tasuki::simulated {

using Access = testing::GuardedMemory::Access;

// Queues work on a stream (nullptr: the default one), or notes it in the graph that the stream
// records. Work holds an Access while it touches the device's memory, which nothing else can touch.
void enqueue(cudaStream_t stream, std::function<void()> work);
// Does everything that is queued on a stream now.
cudaError_t finish(cudaStream_t stream);
// The same for all streams, as freeing memory does.
void finish_all();

// What cudaGetLastError will say.
void set_last_error(cudaError_t error);

}  // namespace tasuki::simulated
