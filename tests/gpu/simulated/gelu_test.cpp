// GELU in the end of a product is left to cuBLASLt only where its epilogue is what is asked for.
#include <cublasLt.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "tensor/cuda/context.hpp"
#include "tensor/cuda/cublaslt.hpp"
#include "tensor/cuda/gelu_epilogue.hpp"
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
  }

  // As a new process would find it.
  static std::optional<Map> found(DType type, bool tf32) {
    return GeluEpilogues().form(CudaContext::of(Device::cuda(0)), type, tf32);
  }
  static void expect(std::optional<Map> form) {
    for (const DType type : {DType::float32, DType::bfloat16, DType::float16})
      EXPECT_EQ(found(type, false), form) << name_of(type);
    EXPECT_EQ(found(DType::float32, true), form) << "TF32";
  }
};

TEST_F(GeluEpilogue, IsUsedForTheFormThatItComputes) {
  expect(Map::gelu_tanh);
  ::setenv(simulated_form, "erf", 1);
  expect(Map::gelu);
  for (const char* form : {"lost_nan", "infinite_nan"}) {
    SCOPED_TRACE(form);
    ::setenv(simulated_form, form, 1);
    expect(std::nullopt);
  }
}

TEST_F(GeluEpilogue, IsNotUsedIfNoAlgorithmRuns) {
  for (const cublasStatus_t status : {CUBLAS_STATUS_NOT_SUPPORTED, CUBLAS_STATUS_INTERNAL_ERROR}) {
    SCOPED_TRACE(static_cast<int>(status));
    ::setenv(refusals, fmt::format("run any fused {}", static_cast<int>(status)).c_str(), 1);
    expect(std::nullopt);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  }
}

TEST_F(GeluEpilogue, IsNotAskedInARecording) {
  const Device gpu = Device::cuda(0);
  GeluEpilogues epilogues;
  std::optional<Map> recorded = Map::gelu;
  const auto form = [&] {
    return epilogues.form(CudaContext::of(gpu), DType::bfloat16, /*tf32=*/false);
  };
  backend(gpu).record(gpu, [&] { recorded = form(); });
  EXPECT_EQ(recorded, std::nullopt);
  EXPECT_EQ(form(), Map::gelu_tanh);
  backend(gpu).record(gpu, [&] { recorded = form(); });
  EXPECT_EQ(recorded, Map::gelu_tanh);
}

// A layer of each test has a shape of its own, because the choice for a shape is kept.
struct Layer {
  std::int64_t items;
  DType type;

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
};

TEST_F(GeluEpilogue, GivesWayToAPassOfItsOwnWhereItFails) {
  std::int64_t items = 3;
  for (const DType type : {DType::float32, DType::bfloat16, DType::float16}) {
    SCOPED_TRACE(name_of(type));
    Layer{items++, type}.expect_right();  // the process knows the form from here on
    for (const cublasStatus_t status :
         {CUBLAS_STATUS_NOT_SUPPORTED, CUBLAS_STATUS_EXECUTION_FAILED}) {
      const Layer layer{items++, type};
      ::setenv(refusals, fmt::format("run any fused {}", static_cast<int>(status)).c_str(), 1);
      layer.expect_right();
      ::unsetenv(refusals);
      layer.expect_right();
    }
  }
}

// An algorithm that does not run takes forever.
TEST_F(GeluEpilogue, GivesWayToAPassOfItsOwnWhereThatIsFaster) {
  const Device gpu = Device::cuda(0);
  CudaContext& context = CudaContext::of(gpu);
  Side side(gpu, DType::bfloat16, DType::bfloat16, 5);
  const Tensor x = side.activations({5, 8}), w = side.activations({16, 8}),
               b = side.activations({16});
  const Tensor y = side.activations({5, 16}), before = y.clone();
  const MatrixProduct product = {.transpose_b = true,
                                 .m = 5,
                                 .n = 16,
                                 .k = 8,
                                 .operands = x.dtype(),
                                 .result = x.dtype(),
                                 .a = x.raw(),
                                 .b = w.raw(),
                                 .c = y.raw(),
                                 .bias = b.raw(),
                                 .bias_type = x.dtype(),
                                 .before = before.raw()};
  const auto choices = [&](bool timed) {
    return choose_matmul(context, product, MatmulKey(product, /*allow_tf32=*/false, timed));
  };
  EXPECT_TRUE(choices(false).front().is_fused);
  EXPECT_FALSE(choices(false).back().is_fused);
  ::setenv(refusals,
           fmt::format("run any fused {}", static_cast<int>(CUBLAS_STATUS_NOT_SUPPORTED)).c_str(),
           1);
  EXPECT_TRUE(choices(false).front().is_fused);
  const auto timed = choices(true);
  ASSERT_EQ(timed.size(), 1U);
  EXPECT_FALSE(timed[0].is_fused);
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
