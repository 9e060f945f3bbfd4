#include "tasuki/program/input.hpp"

#include <algorithm>
#include <utility>

#include "tasuki/dataset/images/augmentation.hpp"
#include "tasuki/dataset/iterators/prefetch_iterator.hpp"

namespace tasuki::program {
namespace {

Share transformed_by(Share share, const ImageTransform& transform, std::int64_t seed) {
  auto made = create_transform(transform, share.dataset->header().field("x"),
                               static_cast<std::uint64_t>(seed));
  share.dataset = transformed(std::move(share.dataset), std::move(made));
  return share;
}

}  // namespace

// One thread augments several times as many images as a core trains on; reading plain examples
// takes less time than waking a thread.
std::int64_t loader_threads(const TrainingSettings& settings, const DatasetHeader& header) {
  const bool has_files = std::ranges::any_of(header.fields, &Field::is_image_file);
  return settings.loader_threads.value_or(settings.augment || has_files ? 1 : 0);
}

Share with_augmentation(Share train, const TrainingSettings& settings) {
  return settings.augment ? transformed_by(std::move(train), augmentation, settings.seed) : train;
}

Share with_standardization(Share test, const TrainingSettings& settings) {
  return settings.augment ? transformed_by(std::move(test), standardization, 0) : test;
}

std::int64_t batches_ahead(const TrainingSettings& settings, const DatasetHeader& header) {
  const std::int64_t threads = loader_threads(settings, header);
  return threads > 0 ? threads + 1 : 0;
}

std::unique_ptr<Iterator> read_ahead(std::unique_ptr<ShareIterator> iterator,
                                     const TrainingSettings& settings,
                                     const DatasetHeader& header) {
  const std::int64_t threads = loader_threads(settings, header);
  if (threads == 0) return iterator;
  return std::make_unique<PrefetchIterator>(std::move(iterator), static_cast<int>(threads),
                                            static_cast<int>(batches_ahead(settings, header)));
}

}  // namespace tasuki::program
