#include "tensor/cuda/matmul_description.hpp"

#include "core/error.hpp"
#include "tensor/cuda/check.hpp"

namespace tasuki {
namespace {

cudaDataType_t type_of(DType type) {
  switch (type) {
    case DType::float32:
      return CUDA_R_32F;
    case DType::float16:
      return CUDA_R_16F;
    case DType::bfloat16:
      return CUDA_R_16BF;
    default:
      fail(ErrorKind::internal, "a matrix product of {} values", name_of(type));
  }
}

template <class Value>
void set(cublasLtMatmulDescOpaque_t& operation, cublasLtMatmulDescAttributes_t attribute,
         Value value) {
  check_cublas(cublasLtMatmulDescSetAttribute(&operation, attribute, &value, sizeof(value)),
               "cublasLtMatmulDescSetAttribute");
}

// A contiguous column-major matrix, or `batch` of them.
void init(cublasLtMatrixLayoutOpaque_t& layout, DType type, std::int64_t rows, std::int64_t columns,
          std::int64_t batch, std::int64_t step) {
  check_cublas(cublasLtMatrixLayoutInit(&layout, type_of(type), static_cast<std::uint64_t>(rows),
                                        static_cast<std::uint64_t>(columns), rows),
               "cublasLtMatrixLayoutInit");
  if (batch == 1) return;
  const auto count = static_cast<std::int32_t>(batch);
  TASUKI_CHECK(count == batch, "{} matrices in a batch", batch);
  check_cublas(cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                                sizeof(count)),
               "cublasLtMatrixLayoutSetAttribute");
  check_cublas(cublasLtMatrixLayoutSetAttribute(
                   &layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof(step)),
               "cublasLtMatrixLayoutSetAttribute");
}

}  // namespace

MatmulDescription::MatmulDescription(const MatrixProduct& p, bool tf32, bool fuse) {
  const cublasComputeType_t compute = tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  check_cublas(cublasLtMatmulDescInit(&operation, compute, CUDA_R_32F), "cublasLtMatmulDescInit");
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (fuse && p.bias != nullptr) {
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE,
        p.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS);
    set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  } else if (fuse) {
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BGRADB);
    set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.row_sums);
  } else if (p.relu && p.bias == nullptr) {
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_RELU);
  }
  init(first, p.operands, p.transpose_b ? p.k : p.n, p.transpose_b ? p.n : p.k, p.batch, p.step_b);
  init(second, p.operands, p.transpose_a ? p.m : p.k, p.transpose_a ? p.k : p.m, p.batch, p.step_a);
  init(result, p.result, p.n, p.m, p.batch, p.step_c);
}

cublasStatus_t run_matmul(cublasLtHandle_t handle, MatmulDescription& description,
                          const MatrixProduct& p, const cublasLtMatmulAlgo_t& algorithm,
                          void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  // Read before this returns, also in a recording.
  const float one = 1;
  return cublasLtMatmul(handle, &description.operation, &one, p.b, &description.first, p.a,
                        &description.second, &p.beta, p.c, &description.result, p.c,
                        &description.result, &algorithm, workspace, workspace_bytes, stream);
}

}  // namespace tasuki
