// train_imagenet on a few small images.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>

#include "tests/support/image_files.hpp"
#include "training_job.hpp"

namespace tasuki::testing {

inline void write_plain(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

class TrainImageNet : public TrainingJob {
 protected:
  TrainImageNet() : TrainingJob({TRAIN_IMAGENET, "--conv", "direct"}) {
    for (const char* split : {"train", "val"})
      for (const int label : {0, 1}) {
        const auto sub = std::filesystem::path(data) / split / (label ? "across" : "down");
        std::filesystem::create_directories(sub);
        for (int i = 0; i < 6; ++i) {
          const Image image = make_image(70 + i, 90, [&](int c, int y, int x) {
            return (label ? 8 * x : 8 * y) % 256 / (c + 1);
          });
          const std::string name = fmt::format("{}/{}.jpg", label ? "across" : "down", i);
          write_plain(sub / fmt::format("{}.jpg", i), jpeg_file(image));
          lists[split] += fmt::format("{} {}\n", name, label);
        }
      }
  }

  // Two shards make the same global batches on one rank and on two.
  std::vector<std::string> few_steps(std::vector<std::string> more) {
    return with({"--arch", "nin", "--image-size", "63", "--global-batch", "4", "--shards", "2",
                 "--log-every", "1", "--test-examples", "4"},
                more);
  }
  std::vector<double> losses(int np, const std::string& out, const std::vector<std::string>& more) {
    return values_of(log_of(np, out, few_steps(more)), "main/loss");
  }

  std::map<std::string, std::string> lists;  // of the images, by split
};

}  // namespace tasuki::testing
