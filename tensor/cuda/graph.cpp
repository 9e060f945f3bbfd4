// Recordings as CUDA graphs.
#include <new>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "tensor/cuda/context.hpp"
#include "tensor/cuda/cuda_backend.hpp"
#include "tensor/cuda/cudnn_support.hpp"
#include "tensor/cuda/postponed_release.hpp"
#include "tensor/cuda/step_filters.hpp"

namespace tasuki {
namespace {

using Graph = CudaHandle<cudaGraph_t, &cudaGraphDestroy>;
using ExecutableGraph = CudaHandle<cudaGraphExec_t, &cudaGraphExecDestroy>;

// Keeps the memory that the graph's kernels write at every launch, and filters that they convert.
class CudaRecording final : public Recording {
 public:
  CudaRecording(Device device, ExecutableGraph graph, std::shared_ptr<BlockPool> pool,
                std::vector<std::shared_ptr<Storage>> filters)
      : device_(device),
        stream_(CudaContext::of(device).stream()),
        pool_(std::move(pool)),
        filters_(std::move(filters)),
        graph_(std::move(graph)) {}
  // The device may still be running it, and freeing its memory would wait, too.
  ~CudaRecording() override {
    if (!is_failing()) {
      static_cast<void>(cudaStreamSynchronize(stream_));
      return;
    }
    // They are leaked until the process ends.
    static_cast<void>(graph_.release());
    static_cast<void>(new (std::nothrow) std::shared_ptr<BlockPool>(std::move(pool_)));
  }
  CudaRecording(const CudaRecording&) = delete;
  CudaRecording& operator=(const CudaRecording&) = delete;

  void replay() override {
    CudaContext::of(device_);
    check_cuda(cudaGraphLaunch(graph_.get(), stream_), "cudaGraphLaunch");
    all_filters_change(device_);
  }

 private:
  Device device_;
  cudaStream_t stream_;
  std::shared_ptr<BlockPool> pool_;
  std::vector<std::shared_ptr<Storage>> filters_;
  ExecutableGraph graph_;
};

// Between begin and end, work that is queued on a stream, and on others that wait for it, is
// recorded instead of done.
class Capture {
 public:
  explicit Capture(cudaStream_t stream) : stream_(stream) {
    // Relaxed: the pool may ask the driver for memory meanwhile, and so may other threads.
    check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed),
               "cudaStreamBeginCapture");
  }
  ~Capture() {
    if (!is_over_) abandon();
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  Graph end() {
    is_over_ = true;
    cudaGraph_t graph = nullptr;
    check_cuda(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
    return Graph(graph);
  }

 private:
  // The capture is broken or not wanted; its error has been reported already.
  void abandon() noexcept {
    cudaGraph_t graph = nullptr;
    static_cast<void>(cudaStreamEndCapture(stream_, &graph));
    if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
    static_cast<void>(cudaGetLastError());
  }

  cudaStream_t stream_;
  bool is_over_ = false;
};

// cuDNN's handle names the recording's stream by now. It is reset however the recording ends,
// before the stream is destroyed.
class CudnnStreamReturn {
 public:
  explicit CudnnStreamReturn(const CudaContext& context) : context_(context) {}
  ~CudnnStreamReturn() { return_cudnn_stream(context_); }
  CudnnStreamReturn(const CudnnStreamReturn&) = delete;
  CudnnStreamReturn& operator=(const CudnnStreamReturn&) = delete;

 private:
  const CudaContext& context_;
};

}  // namespace

std::unique_ptr<Recording> CudaBackend::record(Device device, const std::function<void()>& work) {
  CudaContext& context = CudaContext::of(device);
  // Steps that were not recorded leave blocks in the pool, whose memory recorded steps, with a
  // separate pool, would need again.
  synchronize(device);
  context.pool()->trim();
  const RecordingScope recording;
  const std::shared_ptr<BlockPool> pool = recording_pool(context);
  const CudaStream stream = make_stream();
  Graph graph;
  RecordedFilters filters(device);
  {
    const CudnnStreamReturn restoring(context);
    const CudaStreamScope scope(device, stream.get(), pool);
    Capture capture(stream.get());
    work();
    graph = capture.end();
  }
  cudaGraphExec_t executable = nullptr;
  check_cuda(cudaGraphInstantiate(&executable, graph.get(), 0), "cudaGraphInstantiate");
  return std::make_unique<CudaRecording>(device, ExecutableGraph(executable), pool, filters.take());
}

}  // namespace tasuki
