// Whether NVIDIA's cuDNN, the real library, supports our graphs of operations on GPUs that are not
// there: it answers for a device of which it is given the properties alone.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "tensor/cuda/attention_graphs.hpp"
#include "tensor/cuda/cudnn_support.hpp"

namespace tasuki::testing {
namespace {

struct Gpu {
  const char* name;
  int compute_capability;  // times 100, as cuDNN counts
  int multiprocessors, shared_bytes;
};

constexpr Gpu hopper = {"H100", 900, 132, 232448};

// As cuDNN 9.11 and later read them.
CudnnObject properties_of(const Gpu& gpu) {
  const std::string text = fmt::format(
      R"({{"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
           "regsPerBlock": 65536, "multiProcessorCount": {}, "smClockRateKHz": 1980000,
           "memClockRateKHz": 2619000, "l2CacheSize": 52428800, "warpSize": 32,
           "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": {},
           "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "pciDeviceId": 0,
           "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048,
           "isTccDriver": 0, "supportCoopLaunch": 1, "deviceVer": {}, "driverVer": 13000,
           "cudaDeviceId": 0, "totalGlobalMem": 85899345920, "deviceName": "{}"}})",
      gpu.multiprocessors, gpu.shared_bytes, gpu.compute_capability, gpu.name);
  CudnnObject properties = make_cudnn_object(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  check_cudnn(cudnnBackendSetAttribute(properties.get(), CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                       CUDNN_TYPE_CHAR, static_cast<std::int64_t>(text.size()),
                                       text.data()),
              "cudnnBackendSetAttribute");
  check_cudnn(cudnnBackendFinalize(properties.get()), "cudnnBackendFinalize");
  return properties;
}

template <class Graph>
bool is_supported(const AttentionShape& shape, const Gpu& gpu) {
  const Graph graph(shape);
  const CudnnObject finished = graph.graph.finish(nullptr);
  if (finished == nullptr) return false;
  const CudnnObject properties = properties_of(gpu);
  return !propose_engines(finished.get(), properties.get()).empty();
}

// Queries, keys and values as one product makes them, and their gradients in the same form.
AttentionShape shape_of(std::int64_t rows, std::int64_t head_width) {
  constexpr std::int64_t heads = 4;
  const std::int64_t width = 3 * heads * head_width;
  return {.items = 8,
          .heads = heads,
          .queries = rows,
          .keys = rows,
          .head_width = head_width,
          .causal = true,
          .q_width = width,
          .k_width = width,
          .v_width = width,
          .dq_width = width,
          .dk_width = width,
          .dv_width = width};
}

class CudnnGraphs : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cudnnGetVersion() < 91100)
      GTEST_SKIP() << "cuDNN " << cudnnGetVersion() << " knows only devices that are there";
  }
};

TEST_F(CudnnGraphs, OfAttentionAreSupportedOnHopper) {
  for (const bool causal : {true, false})
    for (const bool has_lengths : {false, true})
      for (const auto type : {CUDNN_DATA_BFLOAT16, CUDNN_DATA_HALF})
        for (const auto& [rows, width] :
             {std::pair{1024, 64}, {128, 64}, {300, 256}, {37, 80}, {5, 24}, {2, 8}}) {
          SCOPED_TRACE(fmt::format("{} rows of {}, causal {}, lengths {}, type {}", rows, width,
                                   causal, has_lengths, static_cast<int>(type)));
          AttentionShape shape = shape_of(rows, width);
          shape.type = type;
          shape.causal = causal;
          shape.has_lengths = has_lengths;
          EXPECT_TRUE(is_supported<AttentionGraph>(shape, hopper));
          EXPECT_TRUE(is_supported<AttentionGradientGraph>(shape, hopper));
        }
}

TEST_F(CudnnGraphs, OfAttentionMayHaveOtherNumbersOfKeys) {
  for (const auto& [queries, keys] : {std::pair{1, 70}, {9, 37}, {300, 5}}) {
    SCOPED_TRACE(fmt::format("{} queries, {} keys", queries, keys));
    AttentionShape shape = shape_of(queries, 64);
    shape.keys = keys;
    shape.causal = false;
    EXPECT_TRUE(is_supported<AttentionGraph>(shape, hopper));
    EXPECT_TRUE(is_supported<AttentionGradientGraph>(shape, hopper));
  }
}

TEST_F(CudnnGraphs, OfAttentionAreSupportedFromAmpereOn) {
  for (const Gpu& gpu : {Gpu{"A100", 800, 108, 166912}, Gpu{"L4", 890, 58, 101376},
                         Gpu{"B200", 1000, 148, 232448}, Gpu{"RTX 5090", 1200, 170, 101376}}) {
    SCOPED_TRACE(gpu.name);
    EXPECT_TRUE(is_supported<AttentionGraph>(shape_of(1024, 64), gpu));
    EXPECT_TRUE(is_supported<AttentionGradientGraph>(shape_of(1024, 64), gpu));
    EXPECT_TRUE(is_supported<AttentionGraph>(shape_of(1024, 256), gpu));
  }
}

// Our kernels take these.
TEST_F(CudnnGraphs, OfAttentionAreRefusedWhereThereIsNoKernel) {
  const auto is_refused = [](const AttentionShape& shape, const Gpu& gpu) {
    return !is_supported<AttentionGraph>(shape, gpu) &&
           !is_supported<AttentionGradientGraph>(shape, gpu);
  };
  EXPECT_TRUE(is_refused(shape_of(1024, 64), {"T4", 750, 40, 65536}));
  EXPECT_TRUE(is_refused(shape_of(1024, 20), hopper));
  EXPECT_FALSE(
      is_supported<AttentionGradientGraph>(shape_of(1024, 256), {"A100", 800, 108, 166912}));
}

}  // namespace
}  // namespace tasuki::testing
