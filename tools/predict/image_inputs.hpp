// Image files in the form that networks take: as train_imagenet evaluates on them, or grey.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataset/images/image_folder.hpp"
#include "dataset/images/image_stream.hpp"
#include "tools/predict/trained_model.hpp"

namespace tasuki::predict {

// Whether images are read as train_imagenet reads them: for its runs, and for published weights.
bool takes_middle_crops(const FinishedRun& run, const std::string& network);

// The middle crops of side x side pixels, and the scale of their colours, as the run's flags say;
// nothing without takes_middle_crops(). Reads the mean image of --mean.
std::optional<ImageStreamSettings> middle_crops_of(const FinishedRun& run,
                                                   const std::string& network, std::int64_t side,
                                                   Exif exif);

// The images on which the run evaluated, from --val or --data.
std::vector<ImageFile> evaluated_images(const FinishedRun& run);

// For networks with grey input: like open_image_files(), but examples are 1 x side x side, decoded
// as the source is read: the luma of ITU-R BT.601, (299 red + 587 green + 114 blue) / 1000.
std::unique_ptr<DataSource> open_grey_files(std::vector<ImageFile> files, std::int64_t classes,
                                            const ImageSettings& settings);

}  // namespace tasuki::predict
