#include "queue.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "counts.hpp"

// One recording of an event; `source` is where it will come about.
struct Mark {
  bool is_done = false;
  cudaStream_t source = nullptr;
  cudaGraph_t graph = nullptr;  // that the event was recorded into
  std::int64_t operations = 0;  // of the source until then
};

struct CUevent_st {
  std::shared_ptr<Mark> mark;
};

// What a recording has noted, in the order of the calls.
struct Noted {
  cudaStream_t stream = nullptr;
  std::function<void()> work;
  std::shared_ptr<Mark> awaited, reached;
  const char* name = nullptr;  // of the work
};

struct CUgraph_st {
  std::vector<Noted> noted;
  cudaStream_t origin = nullptr;
  std::set<cudaStream_t> branches;  // with work that the origin has not waited for
  bool is_broken = false;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;  // that began it
};

struct CUstream_st {
  struct Step {
    std::function<void()> work;
    std::shared_ptr<Mark> awaited, reached;
    std::chrono::steady_clock::time_point queued = std::chrono::steady_clock::now();
  };
  std::deque<Step> queue;
  bool is_busy = false;  // with a step that it has taken from the queue
  cudaGraph_t recording = nullptr;
  std::int64_t operations = 0;  // that were done
  std::uint64_t number = ++made;

  static inline std::uint64_t made = 0;
  bool is_idle() const { return queue.empty() && !is_busy; }
};

struct CUgraphExec_st {
  std::vector<Noted> noted;
  cudaStream_t origin = nullptr;
  // In the place of the other streams that were recorded: what branches off waits for nothing but
  // the events that it waited for then.
  std::map<cudaStream_t, CUstream_st> branches;
};

namespace tasuki::simulated {
namespace {

// Work is done without the lock, so that it may wait for other processes.
struct Device {
  std::mutex mutex;
  std::condition_variable changed;
  CUstream_st default_stream;
  std::set<cudaStream_t> streams{&default_stream};

  Device() {
    std::thread([this] { do_overdue_work(); }).detach();
  }
  void do_overdue_work();
};

Device& device() {
  static auto* const instance = new Device;
  return *instance;
}

thread_local cudaError_t last_error = cudaSuccess;

cudaError_t failed(cudaError_t error) {
  set_last_error(error);
  return error;
}

using Lock = std::unique_lock<std::mutex>;

cudaStream_t named(cudaStream_t stream) {
  return stream == nullptr ? &device().default_stream : stream;
}

// Does the first step of a stream, and before that what the step waits for; or waits for whoever
// does one now.
void advance(Lock& lock, cudaStream_t stream) {
  if (stream->is_busy) return device().changed.wait(lock);
  if (stream->queue.empty()) return;
  stream->is_busy = true;
  const auto step = std::move(stream->queue.front());
  stream->queue.pop_front();
  if (step.awaited)
    while (!step.awaited->is_done) advance(lock, step.awaited->source);
  if (step.work) {
    lock.unlock();
    step.work();
    lock.lock();
    ++stream->operations;
  }
  if (step.reached) {
    step.reached->operations = stream->operations;
    step.reached->is_done = true;
  }
  stream->is_busy = false;
  device().changed.notify_all();
}

void finish(Lock& lock, cudaStream_t stream) {
  while (!stream->is_idle()) advance(lock, stream);
}

// A GPU works on although this process does not wait for it: other ranks may wait for its work.
void Device::do_overdue_work() {
  constexpr std::chrono::milliseconds longest_delay{3};
  for (;;) {
    std::this_thread::sleep_for(longest_delay / 3);
    Lock lock(mutex);
    const auto is_overdue = [&](cudaStream_t stream) {
      return !stream->is_busy && !stream->queue.empty() &&
             stream->queue.front().queued + longest_delay < std::chrono::steady_clock::now();
    };
    for (auto next = streams.begin(); next != streams.end();) {
      if (is_overdue(*next)) {
        advance(lock, *next);
        next = streams.begin();  // streams may have come and gone
      } else {
        ++next;
      }
    }
  }
}

// Breaks a recording, as CUDA does when a call inside is not allowed.
cudaError_t refuse(cudaStream_t stream) {
  stream->recording->is_broken = true;
  return failed(cudaErrorStreamCaptureUnsupported);
}

bool is_recording(const CUevent_st& event) {
  return event.mark != nullptr && event.mark->graph != nullptr;
}

}  // namespace

void enqueue(cudaStream_t stream, std::function<void()> work, const char* name) {
  Lock lock(device().mutex);
  stream = named(stream);
  if (stream->recording == nullptr) {
    count(name);
    stream->queue.push_back({std::move(work), nullptr, nullptr});
    return;
  }
  stream->recording->noted.push_back({stream, std::move(work), nullptr, nullptr, name});
  if (stream != stream->recording->origin) stream->recording->branches.insert(stream);
}

cudaError_t finish(cudaStream_t stream) {
  count("wait");
  Lock lock(device().mutex);
  stream = named(stream);
  if (stream->recording != nullptr) return refuse(stream);
  finish(lock, stream);
  return cudaSuccess;
}

cudaError_t check_recordings(Call call) {
  Lock lock(device().mutex);
  cudaError_t answer = cudaSuccess;
  for (cudaStream_t stream : device().streams) {
    const cudaGraph_t recording = stream->recording;
    if (recording == nullptr) continue;
    const bool is_own = recording->thread == std::this_thread::get_id();
    const bool is_allowed =
        call == Call::unsafe && (recording->mode == cudaStreamCaptureModeRelaxed ||
                                 (recording->mode == cudaStreamCaptureModeThreadLocal && !is_own));
    if (!is_allowed) answer = refuse(stream);
  }
  return answer;
}

bool is_recording(cudaStream_t stream) {
  Lock lock(device().mutex);
  return named(stream)->recording != nullptr;
}

void break_recording(cudaStream_t stream) {
  Lock lock(device().mutex);
  if (named(stream)->recording != nullptr) named(stream)->recording->is_broken = true;
}

std::uint64_t number_of(cudaStream_t stream) {
  Lock lock(device().mutex);
  stream = named(stream);
  return device().streams.contains(stream) ? stream->number : 0;
}

void finish_all() {
  Lock lock(device().mutex);
  const auto is_working = [](cudaStream_t stream) { return !stream->is_idle(); };
  for (;;) {
    const auto found = std::ranges::find_if(device().streams, is_working);
    if (found == device().streams.end()) return;
    advance(lock, *found);
  }
}

void set_last_error(cudaError_t error) {
  last_error = error;
}

extern "C" {

cudaError_t cudaGetLastError() {
  return std::exchange(last_error, cudaSuccess);
}
cudaError_t cudaPeekAtLastError() {
  return last_error;
}

// --- streams ---

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned /*flags*/) {
  Lock lock(device().mutex);
  *stream = new CUstream_st;
  device().streams.insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int /*priority*/) {
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Lock lock(device().mutex);
  finish(lock, stream);
  device().streams.erase(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return finish(stream);
}
cudaError_t cudaDeviceSynchronize() {
  const cudaError_t refused = check_recordings(Call::waits_for_device);
  count("wait");
  if (refused == cudaSuccess) finish_all();
  return refused;
}
// A program that polls sees work being done.
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  Lock lock(device().mutex);
  stream = named(stream);
  if (stream->recording != nullptr) return refuse(stream);
  if (stream->is_idle()) return cudaSuccess;
  if (!stream->is_busy) advance(lock, stream);
  return cudaErrorNotReady;
}

// --- events ---

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  Lock lock(device().mutex);
  stream = named(stream);
  event->mark = std::make_shared<Mark>(Mark{false, stream, stream->recording});
  if (stream->recording == nullptr)
    stream->queue.push_back({{}, nullptr, event->mark});
  else
    stream->recording->noted.push_back({stream, {}, nullptr, event->mark});
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  Lock lock(device().mutex);
  stream = named(stream);
  if (event->mark == nullptr) return cudaSuccess;
  if (!is_recording(*event)) {
    if (stream->recording != nullptr) {
      stream->recording->is_broken = true;
      return failed(cudaErrorStreamCaptureIsolation);
    }
    stream->queue.push_back({{}, event->mark, nullptr});
    return cudaSuccess;
  }
  // Waiting joins a stream to the recording, and takes back what has branched off.
  cudaGraph_t const graph = event->mark->graph;
  if (stream->recording == nullptr) {
    stream->recording = graph;
    graph->branches.insert(stream);
  } else if (stream->recording != graph) {
    return failed(cudaErrorStreamCaptureMerge);
  }
  graph->noted.push_back({stream, {}, event->mark, nullptr});
  if (stream == graph->origin) graph->branches.erase(event->mark->source);
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  count("wait");
  Lock lock(device().mutex);
  if (is_recording(*event)) return failed(cudaErrorCapturedEvent);
  const auto mark = event->mark;
  while (mark && !mark->is_done) advance(lock, mark->source);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  Lock lock(device().mutex);
  if (is_recording(*event)) return failed(cudaErrorCapturedEvent);
  if (event->mark == nullptr || event->mark->is_done) return cudaSuccess;
  if (!event->mark->source->is_busy) advance(lock, event->mark->source);
  return cudaErrorNotReady;
}
// As if each operation took half a millisecond.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  Lock lock(device().mutex);
  for (cudaEvent_t event : {start, end})
    if (event->mark == nullptr || !event->mark->is_done) return failed(cudaErrorNotReady);
  *milliseconds = 0.5F * static_cast<float>(end->mark->operations - start->mark->operations);
  return cudaSuccess;
}

// --- graphs ---

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  Lock lock(device().mutex);
  if (stream == nullptr) return failed(cudaErrorStreamCaptureUnsupported);
  if (stream->recording != nullptr) return failed(cudaErrorIllegalState);
  stream->recording = new CUgraph_st;
  stream->recording->origin = stream;
  stream->recording->mode = mode;
  stream->recording->thread = std::this_thread::get_id();
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  Lock lock(device().mutex);
  const cudaGraph_t graph = named(stream)->recording;
  *status = graph == nullptr   ? cudaStreamCaptureStatusNone
            : graph->is_broken ? cudaStreamCaptureStatusInvalidated
                               : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  Lock lock(device().mutex);
  *graph = nullptr;
  const cudaGraph_t recorded = named(stream)->recording;
  if (recorded == nullptr) return failed(cudaErrorIllegalState);
  if (recorded->origin != stream) return failed(cudaErrorStreamCaptureUnmatched);
  if (recorded->mode != cudaStreamCaptureModeRelaxed &&
      recorded->thread != std::this_thread::get_id())
    return failed(cudaErrorStreamCaptureWrongThread);
  for (cudaStream_t other : device().streams)
    if (other->recording == recorded) other->recording = nullptr;
  const cudaError_t error = recorded->is_broken          ? cudaErrorStreamCaptureInvalidated
                            : recorded->branches.empty() ? cudaSuccess
                                                         : cudaErrorStreamCaptureUnjoined;
  if (error == cudaSuccess) {
    *graph = recorded;
    return error;
  }
  delete recorded;
  return failed(error);
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long /*flags*/) {
  Lock lock(device().mutex);
  auto* const made = new CUgraphExec_st{graph->noted, graph->origin, {}};
  for (const Noted& each : made->noted)
    if (each.stream != made->origin && made->branches.try_emplace(each.stream).second)
      device().streams.insert(&made->branches.at(each.stream));
  *executable = made;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  Lock lock(device().mutex);
  for (auto& [recorded, branch] : executable->branches) {
    finish(lock, &branch);
    device().streams.erase(&branch);
  }
  delete executable;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  count("graph");
  Lock lock(device().mutex);
  stream = named(stream);
  const auto begin = std::make_shared<Mark>(Mark{false, stream, nullptr});
  stream->queue.push_back({{}, nullptr, begin});
  for (auto& [recorded, branch] : executable->branches)
    branch.queue.push_back({{}, begin, nullptr});
  std::map<std::shared_ptr<Mark>, std::shared_ptr<Mark>> marks;  // of this launch
  for (const Noted& each : executable->noted) {
    cudaStream_t const here =
        each.stream == executable->origin ? stream : &executable->branches.at(each.stream);
    if (each.work) count(each.name);
    if (each.reached) marks[each.reached] = std::make_shared<Mark>(Mark{false, here, nullptr});
    here->queue.push_back({each.work, each.awaited ? marks.at(each.awaited) : nullptr,
                           each.reached ? marks.at(each.reached) : nullptr});
  }
  return cudaSuccess;
}

}  // extern "C"
}  // namespace tasuki::simulated
