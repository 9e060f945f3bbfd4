#include "tasuki/program/data/input.hpp"

#include <algorithm>
#include <utility>

#include "tasuki/dataset/images/augmentation.hpp"
#include "tasuki/dataset/iterators/device_iterator.hpp"
#include "tasuki/dataset/iterators/prefetch_iterator.hpp"
#include "tasuki/program/training_flags.hpp"

namespace tasuki::program {
namespace {

Share transformed_by(Share share, const ImageTransform& transform, std::int64_t seed) {
  const DatasetHeader& header = share.dataset->header();
  if (!header.has("x"))
    fail_everywhere(ErrorKind::usage,
                    "--augment changes the images of a field 'x', which this data does not have");
  auto made = create_transform(transform, header.field("x"), static_cast<std::uint64_t>(seed));
  share.dataset = transformed(std::move(share.dataset), std::move(made));
  return share;
}

}  // namespace

// One thread augments several times as many images as a core trains on. Reading plain examples
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

namespace {

std::unique_ptr<Iterator> brought_to_engine(std::unique_ptr<ShareIterator> iterator,
                                            const DatasetHeader& header,
                                            const TrainingSettings& settings,
                                            const Engine& engine) {
  const int threads = static_cast<int>(loader_threads(settings, header));
  const Device device = engine.batch_device();
  if (!device.is_cpu())
    return create_device_iterator(std::move(iterator), device, std::max(1, threads));
  if (threads == 0) return iterator;
  return std::make_unique<PrefetchIterator>(std::move(iterator), threads,
                                            static_cast<int>(batches_ahead(settings, header)));
}

}  // namespace

std::unique_ptr<Iterator> training_batches(const TrainingData& data,
                                           const TrainingSettings& settings, const Engine& engine,
                                           Communicator& communicator) {
  ShareIteratorOptions reading;
  reading.global_batch = global_batch(settings, communicator.size());
  reading.shuffle = true;
  reading.seed = static_cast<std::uint64_t>(settings.seed);
  return brought_to_engine(std::make_unique<ShareIterator>(*data.train.share, reading),
                           data.train.header, settings, engine);
}

std::unique_ptr<Iterator> test_batches(const TrainingData& data, const TrainingSettings& settings,
                                       const Engine& engine, Communicator& communicator) {
  const std::int64_t batch = largest_batch(settings, communicator.size());
  return brought_to_engine(create_serial_iterator(*data.test->share, batch), data.test->header,
                           settings, engine);
}

}  // namespace tasuki::program
