// Batches in the memory of the device that trains.
#pragma once

#include <cstddef>
#include <memory>

#include "dataset/iterators/share_iterator.hpp"

namespace tasuki {

// The same batches in the same order for a model on `device`; a CPU gets `iterator` itself. A share
// that fits (fits_on_device) is copied to the device once, as stored; the batches' fields have
// sources that gather examples there by number and transform them (Transform::on_device). If a
// transform has no form for devices, or the share does not fit, `loader_threads` threads (at least
// 1) read ahead and batches are in host memory; training/recording copies them without waiting.
std::unique_ptr<Iterator> create_device_iterator(std::unique_ptr<ShareIterator> iterator,
                                                 Device device, int loader_threads = 1);

// Bytes of a data set in a device's memory, and whether it would be placed there with this much
// memory free.
std::size_t resident_bytes(const Dataset& dataset);
bool lives_on_device(const Dataset& dataset, std::size_t free_bytes);
// Whether a share of this size fits on a device with this much free memory; half of it is kept for
// activations.
constexpr bool fits_on_device(std::size_t share_bytes, std::size_t free_bytes) {
  return share_bytes <= free_bytes / 2;
}

// Only the first way: a share on the device.
std::unique_ptr<Iterator> create_resident_iterator(std::unique_ptr<ShareIterator> iterator,
                                                   Device device);

}  // namespace tasuki
