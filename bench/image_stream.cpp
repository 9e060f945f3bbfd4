// Images per second that loader threads read, decode, crop and scale, for compare_loader.py:
//   bench_image_stream FOLDER THREADS SECONDS
// FOLDER has a subfolder for each class. Batches of 64 random-resized crops of 224 x 224 pixels.
#include <fmt/core.h>

#include <chrono>
#include <cstdlib>

#include "dataset/images/image_stream.hpp"
#include "dataset/iterators/prefetch_iterator.hpp"
#include "dataset/scatter.hpp"

int main(int argc, char** argv) {
  using namespace tasuki;
  if (argc != 4) {
    fmt::print(stderr, "bench_image_stream FOLDER THREADS SECONDS\n");
    return 64;
  }
  const int threads = std::atoi(argv[2]);
  const double limit = std::atof(argv[3]);
  ImageLists lists = list_class_folders(argv[1], argv[1]);
  ImageStreamSettings settings;
  settings.is_random = true;
  const auto stream =
      std::make_shared<ImageStream>(std::move(lists.train), lists.classes, settings);
  PrefetchIterator batches(create_shuffled_iterator(Share::whole(stream), 64, 1), threads,
                           threads + 1);
  for (int i = 0; i < threads + 2; ++i) batches.next();  // fills the files' cache and the queue
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  std::int64_t images = 0;
  double seconds = 0;
  while (seconds < limit) {
    images += batches.next().size();
    seconds = std::chrono::duration<double>(Clock::now() - start).count();
  }
  fmt::print("{:.1f}\n", static_cast<double>(images) / seconds);
  return 0;
}
