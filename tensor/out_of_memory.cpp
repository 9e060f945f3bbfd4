#include "tensor/out_of_memory.hpp"

namespace tasuki {
namespace {

double mebibytes(std::size_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

}  // namespace

OutOfMemory::OutOfMemory(const Figures& figures)
    : Error(ErrorKind::unavailable,
            fmt::format("{} is out of memory: {:.1f} MiB more were asked for, {:.1f} of {:.1f} MiB "
                        "are free, this process holds {:.1f} MiB ({:.1f} in use); take a smaller "
                        "batch or model, or see who else uses {}",
                        figures.device.text(), mebibytes(figures.requested),
                        mebibytes(figures.free), mebibytes(figures.total),
                        mebibytes(figures.reserved), mebibytes(figures.in_use),
                        figures.device.is_cpu() ? "memory here" : "the GPU")),
      figures_(figures) {}

OutOfMemory::~OutOfMemory() = default;

}  // namespace tasuki
