// Batches in the memory of the device that trains.
#pragma once

#include <cstddef>
#include <memory>

#include "tasuki/dataset/iterators/share_iterator.hpp"

namespace tasuki {

// The same batches in the same order for a model on `device`; a CPU gets `iterator` itself. A share
// that fits (fits_on_device) is copied to the device once, as stored, and the fields of batches
// have sources that gather them there by number, and transform them (Dataset::device_transform).
// Where its transform is another one, or it does not fit, `loader_threads` threads (at least 1)
// read ahead and batches are in host memory; whoever runs steps (training/recording) copies them,
// and nothing waits for that.
std::unique_ptr<Iterator> create_device_iterator(std::unique_ptr<ShareIterator> iterator,
                                                 Device device, int loader_threads = 1);

// Bytes of a data set that lives on a device, and whether it would on one with so much memory free.
std::size_t resident_bytes(const Dataset& dataset);
bool lives_on_device(const Dataset& dataset, std::size_t free_bytes);
// Whether a share of so many bytes is to live on a device with that much memory free: half of it
// stays for activations.
constexpr bool fits_on_device(std::size_t share_bytes, std::size_t free_bytes) {
  return share_bytes <= free_bytes / 2;
}

// The first of the two ways by itself.
std::unique_ptr<Iterator> create_resident_iterator(std::unique_ptr<ShareIterator> iterator,
                                                   Device device);

}  // namespace tasuki
