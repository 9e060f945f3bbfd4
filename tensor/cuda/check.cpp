#include "tensor/cuda/check.hpp"

#include <exception>

#include "core/error.hpp"
#include "tensor/cuda/matmul.hpp"

namespace tasuki {

bool is_of_earlier_work(cudaError_t code) {
  switch (code) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchTimeout:
      return true;
    default:
      return false;
  }
}

namespace {

ErrorKind kind_of(cudaError_t code) {
  switch (code) {
    case cudaErrorMemoryAllocation:
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorDevicesUnavailable:
    case cudaErrorDeviceNotLicensed:
    case cudaErrorSystemNotReady:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorStubLibrary:
      return ErrorKind::unavailable;
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchTimeout:
      return ErrorKind::io;
    default:
      return ErrorKind::internal;
  }
}

const char* hint(cudaError_t code) {
  if (is_of_earlier_work(code))
    return "; the cause is this or earlier work on the device: CUDA_LAUNCH_BLOCKING=1 shows where";
  if (code == cudaErrorNoKernelImageForDevice || code == cudaErrorUnsupportedPtxVersion)
    return "; this build has no code for this GPU: configure with "
           "-DTASUKI_CUDA_ARCHITECTURES=release";
  return "";
}

}  // namespace

void check_cuda(cudaError_t code, const char* call) {
  if (code == cudaSuccess) [[likely]]
    return;
  cudaGetLastError();  // else the next launch would report it again
  fail(kind_of(code), "{} failed: {} ({}){}", call, cudaGetErrorString(code),
       cudaGetErrorName(code), hint(code));
}

void clear_error(const char* call) {
  const cudaError_t left = cudaGetLastError();
  if (is_of_earlier_work(left)) check_cuda(left, call);
}

void check_cublas(cublasStatus_t code, const char* call) {
  if (code == CUBLAS_STATUS_SUCCESS) [[likely]]
    return;
  const ErrorKind kind = code == CUBLAS_STATUS_ALLOC_FAILED ||
                                 code == CUBLAS_STATUS_NOT_INITIALIZED ||
                                 code == CUBLAS_STATUS_ARCH_MISMATCH
                             ? ErrorKind::unavailable
                             : ErrorKind::internal;
  fail(kind, "{} failed: {} ({})", call, cublasLtGetStatusString(code),
       cublasLtGetStatusName(code));
}

void check_launch(const char* kernel) {
  check_cuda(cudaGetLastError(), kernel);
}

bool is_failing() noexcept {
  return std::uncaught_exceptions() > 0;
}

}  // namespace tasuki
