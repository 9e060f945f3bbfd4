// Images per second of the prefetch iterator, by threads: augmented, standardised, and only
// decoded.
//
//   loader [SIDE = 32] [BATCH = 128] [SECONDS = 1]
#include <fmt/core.h>

#include <chrono>
#include <cstdlib>
#include <optional>

#include "dataset/images/create_transform.hpp"
#include "dataset/in_memory.hpp"
#include "dataset/iterators/prefetch_iterator.hpp"
#include "dataset/synthetic.hpp"

using namespace tasuki;

namespace {

// Without `settings`, images are only decoded.
double images_per_second(const Share& stored, const std::optional<ImageTransform>& settings,
                         std::int64_t batch_size, int threads, double seconds) {
  using Clock = std::chrono::steady_clock;
  Share share = stored;
  if (settings)
    share.dataset =
        transformed(stored.dataset,
                    create_transform(*settings, stored.dataset->header().field("x"), /*seed=*/1));
  PrefetchIterator iterator(create_shuffled_iterator(share, batch_size, 1), threads, 2 * threads);
  for (int i = 0; i < 4 * threads; ++i) iterator.next();  // warms up
  std::int64_t images = 0;
  const auto start = Clock::now();
  double elapsed = 0;
  while (elapsed < seconds) {
    images += iterator.next().size();
    elapsed = std::chrono::duration<double>(Clock::now() - start).count();
  }
  return static_cast<double>(images) / elapsed;
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t side = argc > 1 ? std::atoi(argv[1]) : 32;
  const std::int64_t batch_size = argc > 2 ? std::atoi(argv[2]) : 128;
  const double seconds = argc > 3 ? std::atof(argv[3]) : 1;
  const SyntheticDataset made({.count = 10 * batch_size, .example_shape = {3, side, side}});
  const Share stored = Share::whole(read_dataset(*source_of(made)));
  fmt::print("images per second, 3 x {} x {}, batches of {}\n", side, side, batch_size);
  for (const int threads : {1, 2})
    fmt::print("{} thread{}: {:9.0f} augmented, {:9.0f} standardised only, {:9.0f} decoded\n",
               threads, threads > 1 ? "s" : " ",
               images_per_second(stored, augmentation, batch_size, threads, seconds),
               images_per_second(stored, standardization, batch_size, threads, seconds),
               images_per_second(stored, {}, batch_size, threads, seconds));
}
