// Recordings on the simulated GPU: what CUDA refuses while one is made, and what is left of one
// that fails.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <nccl.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>

#include "communicator/gpu/gpu_transport.hpp"
#include "core/error.hpp"
#include "nn/functions/loss.hpp"
#include "tensor/attention_operations.hpp"
#include "tensor/backend.hpp"
#include "tests/gpu/compare.hpp"
#include "tests/gpu/device.hpp"
#include "tests/support/errors.hpp"

namespace tasuki::testing {
namespace {

const Device gpu = Device::cuda(0);

// --- the simulation itself ---

// A stream in the middle of a recording.
class Capture {
 public:
  explicit Capture(cudaStreamCaptureMode mode) {
    cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    EXPECT_EQ(cudaStreamBeginCapture(stream_, mode), cudaSuccess);
  }
  ~Capture() { cudaStreamDestroy(stream_); }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  cudaError_t end() {
    cudaGraph_t graph = nullptr;
    const cudaError_t error = cudaStreamEndCapture(stream_, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
    return error;
  }

 private:
  cudaStream_t stream_ = nullptr;
};

cudaError_t in_another_thread(const std::function<cudaError_t()>& call) {
  cudaError_t answer = cudaSuccess;
  std::thread([&] { answer = call(); }).join();
  return answer;
}

cudaError_t allocate() {
  void* block = nullptr;
  return cudaMalloc(&block, 512);
}

TEST(SimulatedCapture, RejectsUnsafeCallsByMode) {
  struct Case {
    cudaStreamCaptureMode mode;
    bool own_thread, other_thread;  // may allocate
  };
  for (const auto& [mode, own_thread, other_thread] :
       {Case{cudaStreamCaptureModeGlobal, false, false},
        Case{cudaStreamCaptureModeThreadLocal, false, true},
        Case{cudaStreamCaptureModeRelaxed, true, true}}) {
    SCOPED_TRACE(static_cast<int>(mode));
    for (const auto& [is_allowed, call] :
         {std::pair<bool, std::function<cudaError_t()>>{own_thread, allocate},
          {other_thread, [] { return in_another_thread(allocate); }}}) {
      Capture capture(mode);
      EXPECT_EQ(call(), is_allowed ? cudaSuccess : cudaErrorStreamCaptureUnsupported);
      EXPECT_EQ(capture.end(), is_allowed ? cudaSuccess : cudaErrorStreamCaptureInvalidated);
    }
  }
}

TEST(SimulatedCapture, IsInvalidatedByDeviceSynchronization) {
  void *block = nullptr, *pinned = nullptr;
  ASSERT_EQ(cudaMalloc(&block, 512), cudaSuccess);
  ASSERT_EQ(cudaHostAlloc(&pinned, 512, cudaHostAllocDefault), cudaSuccess);
  for (const std::function<cudaError_t()>& call :
       {std::function<cudaError_t()>(cudaDeviceSynchronize),
        {[&] { return cudaFree(block); }},
        {[&] { return cudaFreeHost(pinned); }}}) {
    for (const bool is_elsewhere : {false, true}) {
      Capture capture(cudaStreamCaptureModeRelaxed);
      EXPECT_EQ(is_elsewhere ? in_another_thread(call) : call(), cudaErrorStreamCaptureUnsupported);
      EXPECT_EQ(capture.end(), cudaErrorStreamCaptureInvalidated);
    }
    EXPECT_EQ(call(), cudaSuccess);
  }
}

TEST(SimulatedNccl, AbortsWhenAGraphOutlivesItsCommunicator) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ASSERT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, nullptr), ncclSuccess);
  void* block = nullptr;
  ASSERT_EQ(cudaMalloc(&block, 512), cudaSuccess);
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  const auto add = [&] { ncclAllReduce(block, block, 8, ncclFloat, ncclSum, comm, stream); };
  add();  // what is only queued is done first
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed);
  add();
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  cudaGraphExec_t executable = nullptr;
  cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  EXPECT_DEATH(ncclCommFinalize(comm), "while a graph holds its operations");
  cudaGraphExecDestroy(executable);
  EXPECT_EQ(ncclCommFinalize(comm), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  cudaStreamDestroy(stream);
  cudaFree(block);
}

// --- the backend ---

class Recording : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(why_no_gpu(), std::nullopt); }

  static std::unique_ptr<tasuki::Recording> record(const std::function<void()>& work) {
    return backend(gpu).record(gpu, work);
  }
  static std::string error_of(const std::function<void()>& work) {
    return testing::error_of([&] { record(work); });
  }
  static Tensor convolution(Side& side) {
    const Tensor x = side.activations({2, 4, 7, 6}), w = side.weights({6, 4, 3, 3});
    return side.backend().conv2d(x, w, {}, {1, 1, 1, 1, 1, 1, 1});
  }
  static void expect_right_convolution() {
    Side tested(gpu, DType::float32, DType::float32, 5);
    Side reference(Device::cpu(), DType::float32, DType::float32, 5);
    EXPECT_TRUE(agree({{"y", convolution(tested)}}, {{"y", convolution(reference)}}, 1e-5));
  }
  // Records a step that lets go of something, and repeats it.
  static void expect_to_record(const std::function<void()>& release) {
    const Tensor value = Tensor::zeros({3}, DType::float32, gpu);
    const auto recording = record([&] {
      value.fill(1);
      release();
      value.fill(2);
    });
    recording->replay();
    const Tensor found = value.to(Device::cpu());
    EXPECT_THAT(found.span<float>(), ::testing::Each(2.0F));
  }
};

TEST_F(Recording, LeavesConvolutionsTheirStreamAfterFailing) {
  Side side(gpu, DType::float32, DType::float32, 5);
  expect_right_convolution();
  const Tensor x = side.activations({2, 4, 7, 6}), w = side.weights({6, 4, 3, 3});
  EXPECT_EQ(error_of([&] {
              backend(gpu).conv2d(x, w, {}, {1, 1, 1, 1, 1, 1, 1});
              fail(ErrorKind::io, "a step that fails");
            }),
            "a step that fails");
  expect_right_convolution();
}

TEST_F(Recording, RepeatsConvolutionsWithRelu) {
  for (const DType type : {DType::float32, DType::bfloat16, DType::float16}) {
    Side side(gpu, type, type, 5);
    const Tensor x = side.activations({2, 8, 6, 6}), w = side.weights({16, 8, 3, 3}),
                 b = side.parameters({16}), dy = side.activations({2, 16, 2, 2});
    const Pool2dOptions halves{PoolKind::average, 2, 2, 2, 2, 0, 0, false};
    const auto compute = [&](const Results& results) {
      Backend& device = side.backend();
      const Tensor y = device.conv2d(x, w, b, {}, nullptr, true);
      std::shared_ptr<Workspace> kept;
      const Tensor means = device.relu_pool2d(y, halves, &kept);
      results[0].value.copy_from(y);
      results[1].value.copy_from(means);
      results[2].value.copy_from(device.relu_pool2d_backward(dy, y.shape(), halves, kept.get()));
    };
    const auto results = [&] {
      return Results{{"y", Tensor::zeros({2, 16, 4, 4}, type, gpu)},
                     {"means", Tensor::zeros(dy.shape(), type, gpu)},
                     {"dy", Tensor::zeros({2, 16, 4, 4}, type, gpu)}};
    };
    const Results recorded = results(), eager = results();
    compute(eager);  // as steps before the one that is recorded
    const auto recording = record([&] { compute(recorded); });
    recording->replay();
    EXPECT_TRUE(agree(recorded, eager, 0)) << name_of(type);
  }
}

// Of cuDNN's graphs of operations: numbers in the host's memory are gone when it is replayed.
TEST_F(Recording, RepeatsAttentionByCudnn) {
  Side side(gpu, DType::bfloat16, DType::bfloat16, 5);
  const Tensor qkv = side.activations({2, 24, 96}), dy = side.activations({2, 24, 32});
  const AttentionOptions options{2, 16, 0.25f, true};
  const HeadColumns q{qkv, 0}, k{qkv, 32}, v{qkv, 64};
  const auto attend = [&](const Tensor& y, const Tensor& gradients) {
    AttentionOperations& operations = side.backend().attention();
    const AttentionResult result = operations.attention(q, k, v, options);
    EXPECT_EQ(result.statistics.shape().rank(), 3);  // as cuDNN keeps them
    operations.attention_gradient(q, k, v, result, dy, options, {gradients, 0}, {gradients, 32},
                                  {gradients, 64});
    y.copy_from(result.y);
  };
  const auto results = [&] {
    return Results{{"y", Tensor::zeros(dy.shape(), dy.dtype(), gpu)},
                   {"gradients", Tensor::zeros(qkv.shape(), qkv.dtype(), gpu)}};
  };
  const Results recorded = results(), eager = results();
  const auto recording = record([&] { attend(recorded[0].value, recorded[1].value); });
  attend(eager[0].value, eager[1].value);
  recording->replay();
  EXPECT_TRUE(agree(recorded, eager, 0));
}

TEST_F(Recording, RepeatsLossesOfManyClasses) {
  const Tensor scores = Tensor::full({5, 1032}, 0.5f).to(gpu);
  const Tensor labels = Tensor::full({5}, 3, DType::int32).to(gpu);
  const Tensor dx = Tensor::zeros(scores.shape(), DType::float32, gpu);
  const Variable x(scores, true);
  const auto recording = record([&] {
    functions::softmax_cross_entropy(x, labels).backward();
    dx.copy_from(x.grad());
  });
  recording->replay();
  const Tensor found = dx.to(Device::cpu());
  EXPECT_NEAR(found.data<float>()[0], 1.0 / 1032 / 5, 1e-9);
  EXPECT_NEAR(found.data<float>()[3], (1.0 / 1032 - 1) / 5, 1e-7);
}

TEST_F(Recording, OutlivesReleasedMemory) {
  const auto channel = gpu_transport().open(gpu);
  constexpr std::size_t bytes = std::size_t{64} << 20;
  const auto free_bytes = [] { return backend(gpu).memory(gpu).free; };
  for (const auto& [name, allocate] :
       {std::pair<const char*, std::function<std::shared_ptr<Storage>()>>{
            "mailbox", [] { return backend(gpu).allocate_mailbox(512, gpu); }},
        {"pinned", [&] { return channel->allocate_pinned(512); }},
        {"NCCL's", [&] { return channel->allocate(bytes); }}})
    for (const bool is_elsewhere : {false, true}) {
      SCOPED_TRACE(std::string(name) + (is_elsewhere ? ", by another thread" : ""));
      std::shared_ptr<Storage> memory = allocate();
      const std::size_t before = free_bytes();
      expect_to_record([&] {
        if (is_elsewhere)
          std::thread([&] { memory.reset(); }).join();
        else
          memory.reset();
      });
      if (std::strcmp(name, "NCCL's") == 0) {
        EXPECT_GE(free_bytes(), before + bytes / 2);
      }
    }
}

// A device on which there is not room for two of these at a time.
class RecordingInLittleMemory : public Recording {
 protected:
  RecordingInLittleMemory() { ::setenv("FAKE_CUDA_MEMORY", "80000000", 1); }
  ~RecordingInLittleMemory() override { ::unsetenv("FAKE_CUDA_MEMORY"); }
  static constexpr std::size_t some = 35'000'000, more = 45'000'000;
};

TEST_F(RecordingInLittleMemory, PreventsThePoolFromReturningMemory) {
  expect_to_record([&] {
    std::thread([&] {
      backend(gpu).allocate(some, gpu);  // kept by the pool
      EXPECT_THROW(backend(gpu).allocate(more, gpu), Error);
    }).join();
  });
  EXPECT_NE(backend(gpu).allocate(more, gpu), nullptr);
}

TEST_F(RecordingInLittleMemory, ReturnsItsMemoryOnFailure) {
  EXPECT_EQ(error_of([&] {
              backend(gpu).allocate(some, gpu);
              fail(ErrorKind::io, "a step that fails");
            }),
            "a step that fails");
  EXPECT_NE(backend(gpu).allocate(more, gpu), nullptr);
}

}  // namespace
}  // namespace tasuki::testing
