// GELU in the end of a product is left to cuBLASLt only where its epilogue is what is asked for.
#include <cublasLt.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <optional>
#include <vector>

#include "tensor/cuda/context.hpp"
#include "tensor/cuda/cublaslt.hpp"
#include "tensor/cuda_settings.hpp"
#include "tests/gpu/compare.hpp"
#include "tests/gpu/device.hpp"

namespace tasuki::testing {
namespace {

constexpr const char* simulated_form = "SIMULATED_CUBLASLT_GELU";
constexpr const char* refusals = "SIMULATED_CUBLASLT_REFUSES";

class GeluEpilogue : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(why_no_gpu(), std::nullopt); }
  void TearDown() override {
    ::unsetenv(simulated_form);
    ::unsetenv(refusals);
    cuda_settings() = CudaSettings{};
  }

  static void refuse(const char* what, cublasStatus_t status) {
    ::setenv(refusals, fmt::format("{} {}", what, static_cast<int>(status)).c_str(), 1);
  }
};

using Algorithms = std::vector<int>;

struct Product {
  DType type = DType::bfloat16;
  Map gelu = Map::gelu_tanh;
  std::int64_t columns = 40;
  bool tf32 = false, timed = false;

  // Those that may compute it with GELU; the two passes are always there, and the last choice.
  Algorithms fused() const {
    const Device gpu = Device::cuda(0);
    const auto memory = [&](std::int64_t count) { return Tensor::zeros({count}, type, gpu); };
    const Tensor a = memory(3 * 8), b = memory(columns * 8), c = memory(3 * columns),
                 bias = memory(columns), before = c.clone();
    const MatrixProduct product = {.transpose_b = true,
                                   .m = 3,
                                   .n = columns,
                                   .k = 8,
                                   .operands = type,
                                   .result = type,
                                   .a = a.raw(),
                                   .b = b.raw(),
                                   .c = c.raw(),
                                   .bias = bias.raw(),
                                   .bias_type = type,
                                   .before = before.raw(),
                                   .gelu = gelu};
    const auto choices =
        choose_matmul(CudaContext::of(gpu), product, MatmulKey(product, tf32, timed));
    EXPECT_FALSE(choices.back().is_fused);
    Algorithms found;
    for (std::size_t i = 0; i + 1 < choices.size(); ++i) {
      EXPECT_TRUE(choices[i].is_fused);
      found.push_back(static_cast<int>(choices[i].algorithm.data[0]));
    }
    for (const Tensor& written : {c, before})
      EXPECT_EQ(relative_distance(written, c.clone()), 0) << "the product's memory was touched";
    return found;
  }
};

void expect_fused(const Algorithms& by_tanh, const Algorithms& by_erf, std::int64_t columns = 40) {
  for (const auto& [type, tf32] : {std::pair(DType::float32, false),
                                   {DType::bfloat16, false},
                                   {DType::float16, false},
                                   {DType::float32, true}}) {
    SCOPED_TRACE(fmt::format("{}{}, {} columns", name_of(type), tf32 ? " as TF32" : "", columns));
    EXPECT_EQ((Product{type, Map::gelu_tanh, columns, tf32}.fused()), by_tanh);
    EXPECT_EQ((Product{type, Map::gelu, columns, tf32}.fused()), by_erf);
  }
}

TEST_F(GeluEpilogue, IsUsedForTheFormThatItComputes) {
  for (const std::int64_t columns : {std::int64_t{8}, std::int64_t{40}, std::int64_t{208}})
    expect_fused({1, 0}, {}, columns);
  ::setenv(simulated_form, "erf", 1);
  expect_fused({}, {1, 0});
  ::setenv(simulated_form, "infinite_nan", 1);
  expect_fused({1, 0}, {});
  for (const char* form : {"lost_nan", "wrong_input"}) {
    SCOPED_TRACE(form);
    ::setenv(simulated_form, form, 1);
    expect_fused({}, {});
  }
}

TEST_F(GeluEpilogue, IsProvedForEachAlgorithm) {
  ::setenv(simulated_form, "mixed", 1);
  expect_fused({0}, {1});
}

TEST_F(GeluEpilogue, IsProvedForEachShape) {
  ::setenv(simulated_form, "erf_if_wide", 1);
  expect_fused({1, 0}, {}, 56);
  expect_fused({}, {1, 0}, 64);
}

// cuBLASLt keeps what is before GELU in rows of a multiple of 8 values.
TEST_F(GeluEpilogue, IsNotUsedForOtherRows) {
  expect_fused({}, {}, 12);
}

TEST_F(GeluEpilogue, IsNotUsedIfNoAlgorithmRuns) {
  for (const cublasStatus_t status : {CUBLAS_STATUS_NOT_SUPPORTED, CUBLAS_STATUS_INTERNAL_ERROR}) {
    SCOPED_TRACE(static_cast<int>(status));
    refuse("run any gelu", status);
    expect_fused({}, {});
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  }
}

TEST_F(GeluEpilogue, GivesWayToAPassOfItsOwnWhereThatIsFaster) {
  EXPECT_EQ((Product{.timed = true}.fused()), (Algorithms{1, 0}));
  ::setenv(simulated_form, "slow", 1);
  EXPECT_EQ((Product{}.fused()), (Algorithms{1, 0}));
  EXPECT_EQ((Product{.columns = 48, .timed = true}.fused()), Algorithms());
}

TEST_F(GeluEpilogue, IsFasterThanTwoPassesThatDoNotRun) {
  for (const cublasStatus_t status : {CUBLAS_STATUS_NOT_SUPPORTED, CUBLAS_STATUS_INTERNAL_ERROR}) {
    refuse("run any not_gelu", status);
    // Of a shape whose sum no test computes.
    EXPECT_EQ((Product{.columns = 72, .timed = true}.fused()), (Algorithms{1, 0}));
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  }
}

// A layer of each test has a shape of its own, because the choice for a shape is kept.
struct Layer {
  std::int64_t items;
  DType type = DType::bfloat16;

  Results on(Device device, DType computed) const {
    Side side(device, computed, type, 5);
    const Tensor x = side.activations({items, 33}), w = side.weights({40, 33}),
                 b = side.weights({40});
    Tensor before;
    const Tensor y = side.backend().linear_gelu(x, w, b, true, &before);
    return {{"y", y}, {"before", before}};
  }
  void expect_right() const {
    EXPECT_TRUE(agree(on(Device::cuda(0), type), on(Device::cpu(), DType::float32),
                      type == DType::float32 ? 1e-5 : 1e-2));
  }
  struct Operands {
    Tensor x, w, b;
  };
  // Sums of NaN.
  Operands operands() const {
    const Device gpu = Device::cuda(0);
    return {Tensor::zeros({items, 33}, type, gpu), Tensor::zeros({40, 33}, type, gpu),
            Tensor::full({40}, std::numeric_limits<float>::quiet_NaN()).to(type).to(gpu)};
  }
  static Tensor computed(const Operands& operands) {
    Tensor before;
    return backend(Device::cuda(0)).linear_gelu(operands.x, operands.w, operands.b, true, &before);
  }
  // Of two passes NaN would stay.
  static bool has_lost_nan(const Tensor& y) {
    return y.to(Device::cpu()).to(DType::float32).data<float>()[0] == 0;
  }
  bool is_fused() const {
    ::setenv(simulated_form, "lost_nan", 1);
    const bool is_lost = has_lost_nan(computed(operands()));
    ::unsetenv(simulated_form);
    return is_lost;
  }
};

TEST_F(GeluEpilogue, GivesWayToAPassOfItsOwnWhereItFails) {
  std::int64_t items = 3;
  for (const DType type : {DType::float32, DType::bfloat16, DType::float16}) {
    SCOPED_TRACE(name_of(type));
    for (const cublasStatus_t status :
         {CUBLAS_STATUS_NOT_SUPPORTED, CUBLAS_STATUS_EXECUTION_FAILED}) {
      const Layer layer{items++, type};
      layer.expect_right();
      EXPECT_TRUE(layer.is_fused());
      refuse("run any fused", status);
      layer.expect_right();
      ::unsetenv(refusals);
      EXPECT_FALSE(layer.is_fused());
      layer.expect_right();
    }
  }
}

// Timing two passes chooses an algorithm for another product meanwhile.
TEST_F(GeluEpilogue, IsTimedWithinTheChoiceOfAnAlgorithm) {
  cuda_settings().autotune = true;
  const Layer fast{20}, slow{21};
  fast.expect_right();
  EXPECT_TRUE(fast.is_fused());
  ::setenv(simulated_form, "slow", 1);
  slow.expect_right();
  EXPECT_FALSE(slow.is_fused());
}

TEST_F(GeluEpilogue, IsNotChosenInARecording) {
  const Device gpu = Device::cuda(0);
  const Layer layer{30};
  const Layer::Operands operands = layer.operands();
  const auto is_fused_recorded = [&] {
    Tensor y;
    ::setenv(simulated_form, "lost_nan", 1);
    backend(gpu).record(gpu, [&] { y = Layer::computed(operands); })->replay();
    const bool is_lost = Layer::has_lost_nan(y);
    ::unsetenv(simulated_form);
    return is_lost;
  };
  EXPECT_FALSE(is_fused_recorded());
  layer.expect_right();
  EXPECT_TRUE(is_fused_recorded());
}

// The simulation itself: what cublasLt.h says of the epilogue's attributes.
class SimulatedGeluEpilogue : public GeluEpilogue {
 protected:
  struct Case {
    std::int64_t ld = 8;
    std::int32_t batch = 1;
    bool has_pointer = true;
  };
  // Eight rows, columns and terms.
  static cublasStatus_t run(const Case& asked) {
    const Device gpu = Device::cuda(0);
    const Tensor a = Tensor::zeros({16, 8}, DType::float32, gpu), b = a.clone(), c = a.clone(),
                 before = a.clone();
    MatrixProduct product = {.transpose_b = true, .m = 8, .n = 8, .k = 8};
    product.a = a.raw();
    product.b = b.raw();
    product.c = c.raw();
    product.batch = asked.batch;
    product.step_a = product.step_b = product.step_c = asked.batch > 1 ? 64 : 0;
    MatmulDescription description(product, /*tf32=*/false, /*fuse=*/false);
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
      EXPECT_EQ(
          cublasLtMatmulDescSetAttribute(&description.operation, attribute, &value, sizeof(value)),
          CUBLAS_STATUS_SUCCESS);
    };
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_GELU_AUX);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, asked.ld);
    void* const pointer = before.raw();
    if (asked.has_pointer) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, pointer);
    CudaContext& context = CudaContext::of(gpu);
    const auto workspace = context.allocate(512);
    const cublasLtMatmulAlgo_t algorithm{};
    return run_matmul(context.matmul().cublaslt.get(), description, product, algorithm,
                      workspace->data(), 512, context.stream());
  }
};

TEST_F(SimulatedGeluEpilogue, RefusesWhatIsNotDocumented) {
  EXPECT_EQ(run({}), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(run({.ld = 16}), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(run({.ld = 9}), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(run({.ld = 0}), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(run({.batch = 2}), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(run({.has_pointer = false}), CUBLAS_STATUS_INVALID_VALUE);
}

}  // namespace
}  // namespace tasuki::testing
