// Streams, events and graphs of the simulated GPU. What is queued is done as late as it may: when
// somebody waits for it, or a few milliseconds later. A wait that is missing therefore shows as
// values that are not there yet.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>

#include "tests/support/guarded_device/guarded_memory.hpp"

namespace tasuki::simulated {

using Access = testing::GuardedMemory::Access;

// Queues work on a stream (nullptr: the default one), or notes it in the graph that the stream
// records. Work holds an Access while it touches the device's memory, which nothing else can touch.
// `name`: for counts.hpp, a literal.
void enqueue(cudaStream_t stream, std::function<void()> work, const char* name = "launch.library");
// Does everything that is queued on a stream now.
cudaError_t finish(cudaStream_t stream);
// The same for all streams.
void finish_all();

// What a call means to streams that record. CUDA refuses `unsafe` ones, such as allocating memory,
// by the modes of the recordings, and what waits for the whole device while anything is recorded
// there, whatever the mode and the thread. Freeing memory waits, and counts as that: what relaxed
// recordings make of it is documented nowhere.
enum class Call { unsafe, waits_for_device };
// cudaSuccess, or the refusal, which breaks the recordings that it is for.
cudaError_t check_recordings(Call call);
bool is_recording(cudaStream_t stream);
// A failure within a recording breaks it.
void break_recording(cudaStream_t stream);

// Another number for each stream that was ever made; 0 for one that is gone.
std::uint64_t number_of(cudaStream_t stream);

// What cudaGetLastError will say.
void set_last_error(cudaError_t error);

}  // namespace tasuki::simulated
