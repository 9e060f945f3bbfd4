// Images in the form in which train_imagenet evaluates.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dataset/images/image_stream.hpp"
#include "tools/predict/trained_model.hpp"

namespace tasuki::predict {

// The middle crops of side x side pixels, and the scale of their colours, as the run's flags say;
// nothing for runs of other programs. Reads the mean image of --mean.
std::optional<ImageStreamSettings> middle_crops_of(const TrainingRun& run, std::int64_t side,
                                                   Exif exif);

// The images on which the run evaluated, from --val or --data.
std::vector<ImageFile> evaluated_images(const TrainingRun& run);

}  // namespace tasuki::predict
