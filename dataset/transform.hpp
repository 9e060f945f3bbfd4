// Transform: changes a field of an example between storage and batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "dataset/dataset.hpp"
#include "tensor/image_transform.hpp"

namespace tasuki {

// An example and its epoch: a random transform may depend on these and a seed alone, so that an
// example looks the same whatever rank, batch and thread reads it.
struct ExampleKey {
  std::int64_t epoch = 0;
  std::int64_t id = 0;  // in the whole data set
};

struct Transform {
  // Writes the example's row of a batch (as many floats as it has values). A pure function of its
  // arguments, called by several threads at once.
  std::function<void(const std::byte* stored, const ExampleKey& key, float* destination)> function;
  // `function` for devices that hold the stored examples (Backend::transform_images), if it exists.
  std::optional<SeededImageTransform> on_device = {};
  // For fields of image files, in place of `function`: takes the record (image_record.hpp), so that
  // it can choose which part of the image to decode.
  std::function<void(std::span<const std::byte> record, const ExampleKey& key, float* destination)>
      function_of_file = {};

  void operator()(const std::byte* stored, const ExampleKey& key, float* destination) const {
    function(stored, key, destination);
  }
  // Calls whichever of the two functions is set.
  void apply(StoredField& stored, std::int64_t i, const ExampleKey& key, float* destination) const {
    if (function_of_file)
      function_of_file(stored[i], key, destination);
    else
      function(stored.decoded(i).data(), key, destination);
  }
};

// The same examples, with `transform` applied to field `field` in batches; a view. The field must
// be decoded to float32, not ragged and not transformed already, else that is a usage error. Image
// files are decoded to pixels first. read() and header() are those of `dataset`.
std::shared_ptr<const Dataset> transformed(std::shared_ptr<const Dataset> dataset,
                                           Transform transform, std::string_view field = "x");

}  // namespace tasuki
