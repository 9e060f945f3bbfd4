#include "program/data/training_data.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "communicator/number_bytes.hpp"
#include "communicator/objects.hpp"
#include "communicator/run_on_root.hpp"
#include "communicator/text_bytes.hpp"
#include "core/activity.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "dataset/images/create_transform.hpp"
#include "dataset/iterators/device_iterator.hpp"
#include "dataset/iterators/prefetch_iterator.hpp"
#include "dataset/views.hpp"
#include "program/data/array_data.hpp"
#include "program/data/data_check.hpp"
#include "program/flags/batch_sizes.hpp"
#include "program/flags/training_flags.hpp"
#include "training/batch_memory.hpp"

namespace tasuki::program {
namespace {

using Limit = std::optional<std::int64_t>;
using MakeDataset = std::function<std::shared_ptr<const Dataset>()>;

// The folder of the catalogue's data set, found by rank 0 for all ranks.
std::filesystem::path find_folder(const ProgramData& program, const TrainingSettings& settings,
                                  Communicator& communicator) {
  return bytes_to_text(run_on_root(communicator, 0, [&] {
    return text_to_bytes(find_data_folder(program.dataset, settings.data.value_or("")).string());
  }));
}

OpenSource open_files(const ProgramData& program, Exif exif, const std::filesystem::path& folder,
                      DataSplit split, Limit limit) {
  return [&program, exif, folder, split, limit] {
    auto source =
        open_dataset(program.dataset, folder, split, {.side = program.image_side, .exif = exif});
    if (program.example_shape) source->reshape(*program.example_shape);
    if (limit) source->keep_first(*limit);
    return source;
  };
}

// The data set is made when it is first opened.
OpenSource open_own(const MakeDataset& make, Limit limit) {
  return [make, limit, made = std::make_shared<std::shared_ptr<const Dataset>>()] {
    if (!*made) *made = make();
    auto source = source_of(**made);
    if (limit) source->keep_first(*limit);
    return source;
  };
}

std::shared_ptr<const Dataset> first_of(std::shared_ptr<const Dataset> dataset, Limit limit) {
  if (!limit || *limit >= dataset->size()) return dataset;
  std::vector<std::int64_t> indices(static_cast<std::size_t>(*limit));
  std::iota(indices.begin(), indices.end(), 0);
  return subset_of(std::move(dataset), std::move(indices));
}

SplitData find_split(const OpenSource& open, Communicator& communicator) {
  SplitData split;
  split.open = open;
  split.header = broadcast_header(open, communicator);
  return split;
}

SplitData find_own_split(const MakeDataset& make, bool every_rank_has_data, Limit limit,
                         Communicator& communicator) {
  if (!every_rank_has_data) return find_split(open_own(make, limit), communicator);
  SplitData split;
  split.dataset = first_of(make(), limit);
  split.header = split.dataset->header();
  return split;
}

void find_arrays(const ProgramData& program, const TrainingSettings& settings,
                 Communicator& communicator, TrainingData& data) {
  const std::int64_t classes = classes_of_arrays(program, settings, communicator);
  const auto find = [&](DataSplit split, Limit limit) {
    const MakeDataset open = [&program, &settings, split, classes] {
      return open_array_files(program, settings, split, classes);
    };
    if (!program.arrays.stream) return find_own_split(open, false, limit, communicator);
    std::shared_ptr<const Dataset> opened;
    run_on_all(communicator, [&] { opened = open(); });
    return find_own_split([&] { return opened; }, true, limit, communicator);
  };
  data.train = find(DataSplit::train, settings.examples);
  if (has_test_arrays(program)) data.test = find(DataSplit::test, settings.test_examples);
}

SplitData streamed_split(std::shared_ptr<const ImageStream> stream, Limit limit) {
  SplitData split;
  split.dataset = first_of(stream, limit);
  split.header = split.dataset->header();
  split.stream = std::move(stream);
  return split;
}

void check_split(SplitData& split, Communicator& communicator) {
  const PhaseScope looking(Phase::reading_data);
  if (split.stream && split.is_decoded) return;
  // Each rank looks at a part of the files, on its own disk.
  if (split.stream)
    return run_on_all(communicator, [&] {
      split.stream->check(part_of(split.header.count, communicator.size(), communicator.rank()));
    });
  if (split.dataset) return;
  run_on_root(communicator, 0, [&] {
    split.source = split.open();
    split.source->check();
    return Bytes{};
  });
}

// Rank 0's, on all ranks.
std::vector<DataVocabulary> find_vocabularies(const ProgramData& program,
                                              Communicator& communicator) {
  if (!program.vocabularies) return {};
  const Bytes sent = run_on_root(communicator, 0, [&] {
    nlohmann::json texts = nlohmann::json::array();
    for (const DataVocabulary& each : program.vocabularies())
      texts.push_back({each.flag, each.place, each.hash});
    return object_to_bytes(texts);
  });
  std::vector<DataVocabulary> found;
  for (const nlohmann::json& each : bytes_to_object(sent))
    found.push_back({each.at(0), each.at(1), each.at(2)});
  return found;
}

DatasetHeader longest_of_ranks(const Share& share, Communicator& communicator) {
  DatasetHeader header = with_longest_examples(*share.dataset);
  for (Field& field : header.fields) {
    if (!field.is_ragged) continue;
    const Tensor length = Tensor::full({}, static_cast<double>(field.shape[0]), DType::int64);
    communicator.allreduce(length, ReduceOp::max);
    field.shape = field.shape.with_items(*length.data<std::int64_t>());
  }
  return header;
}

Share transformed_by(Share share, const ImageTransform& transform, std::int64_t seed) {
  const DatasetHeader& header = share.dataset->header();
  if (!header.has("x"))
    fail_everywhere(ErrorKind::usage,
                    "--augment changes the images of a field 'x', which this data does not have");
  auto made = create_transform(transform, header.field("x"), static_cast<std::uint64_t>(seed));
  share.dataset = transformed(std::move(share.dataset), std::move(made));
  return share;
}

// With --augment: training examples are augmented and standardised, test examples standardised
// only.
Share with_augmentation(Share train, const TrainingSettings& settings) {
  return settings.augment ? transformed_by(std::move(train), augmentation, settings.seed) : train;
}

Share with_standardization(Share test, const TrainingSettings& settings) {
  return settings.augment ? transformed_by(std::move(test), standardization, 0) : test;
}

std::unique_ptr<Iterator> brought_to(Device device, std::unique_ptr<ShareIterator> iterator,
                                     const DatasetHeader& header,
                                     const TrainingSettings& settings) {
  const int threads = static_cast<int>(loader_threads(settings, header));
  if (!device.is_cpu())
    return create_device_iterator(std::move(iterator), device, std::max(1, threads));
  if (threads == 0) return iterator;
  return std::make_unique<PrefetchIterator>(std::move(iterator), threads,
                                            static_cast<int>(batches_ahead(settings, header)));
}

}  // namespace

DatasetHeader read_longest(const SplitData& split, Communicator& communicator) {
  return decode_header(decode_numbers(run_on_root(communicator, 0, [&] {
    return encode_numbers(encode_header(split.dataset ? with_longest_examples(*split.dataset)
                                                      : with_longest_examples(*split.open())));
  })));
}

namespace {

bool has_image_files(const TrainingData& data) {
  return std::ranges::any_of(data.train.header.fields, &Field::is_image_file);
}

}  // namespace

TrainingData find_data(const ProgramData& program, const std::string& name,
                       const TrainingSettings& settings, const RankSetup& setup) {
  Communicator& communicator = *setup.communicator;
  TrainingData data;
  data.buckets = program.length_buckets;
  if (program.stream_images) {
    const PhaseScope listing(Phase::reading_data);
    StreamedImages streams = program.stream_images(communicator);
    data.place = streams.place;
    data.class_names = std::move(streams.class_names);
    data.train = streamed_split(std::move(streams.train), settings.examples);
    data.test = streamed_split(std::move(streams.test), settings.test_examples);
  } else if (program.train_data) {
    data.place = name;
    data.train = find_own_split(program.train_data, program.every_rank_has_data, settings.examples,
                                communicator);
    if (program.test_data)
      data.test = find_own_split(program.test_data, program.every_rank_has_data,
                                 settings.test_examples, communicator);
    data.vocabularies = find_vocabularies(program, communicator);
  } else if (has_array_files(program)) {
    data.place = settings.data.value();
    find_arrays(program, settings, communicator, data);
  } else {
    const auto folder = find_folder(program, settings, communicator);
    data.place = folder.string();
    data.train =
        find_split(open_files(program, settings.exif, folder, DataSplit::train, settings.examples),
                   communicator);
    data.test = find_split(
        open_files(program, settings.exif, folder, DataSplit::test, settings.test_examples),
        communicator);
  }
  if (setup.resumption.lacks_exif && settings.exif == Exif::ignore && has_image_files(data) &&
      communicator.rank() == 0)
    log_info(
        "images are not rotated as their EXIF orientation says, because the resumed run's "
        "version did not do so; --exif on rotates them from now on");
  if (settings.skip_damaged) {
    const auto leave_out = [&](SplitData& split, const char* name) {
      leave_out_unreadable(
          split, name,
          split.stream ? split.stream->list().root() : std::filesystem::path(data.place),
          setup.resumption.left_out, communicator, setup.threads.threads);
    };
    leave_out(data.train, "train");
    if (data.test) leave_out(*data.test, "test");
  }
  const auto refuse = [&](const char* purpose) {
    fail_everywhere(ErrorKind::data, "{}: expected examples to {}, found none", data.place,
                    purpose);
  };
  if (data.train.header.count == 0) refuse("train on");
  if (data.test && data.test->header.count == 0) refuse("evaluate on");
  return data;
}

void TrainingData::check_files(const TrainingSettings& settings, const RankSetup& setup) {
  Communicator& communicator = *setup.communicator;
  std::vector<SplitData*> splits = {&train};
  if (test) splits.push_back(&*test);
  if (settings.check_data.value_or(settings.dry_run))
    check_all_examples(splits, communicator, setup.threads.threads);
  for (SplitData* const split : splits) check_split(*split, communicator);
}

std::unique_ptr<DataSource> SplitData::take_source() {
  if (source) return std::move(source);
  return dataset ? source_of(*dataset) : open();
}

Share SplitData::deal(Communicator& communicator, const ScatterOptions& options) {
  if (dataset)
    return take_share(dataset, communicator.size() / options.ranks_per_share,
                      communicator.rank() / options.ranks_per_share, options);
  return scatter_dataset([this] { return take_source(); }, communicator, options);
}

void SplitData::keep(Share own) {
  share = std::move(own);
  // Both may hold all the data of a program that makes its data sets.
  open = nullptr;
  dataset.reset();
  stream.reset();
}

ScatterOptions dealing_of(const TrainingSettings& settings, int model_ranks) {
  ScatterOptions dealing;
  dealing.ranks_per_share = model_ranks;
  dealing.shuffle = true;
  dealing.seed = static_cast<std::uint64_t>(settings.seed);
  dealing.shards = static_cast<int>(settings.shards.value_or(0));
  return dealing;
}

ScatterOptions test_dealing_of(const TrainingSettings& settings, int model_ranks) {
  ScatterOptions dealing;
  dealing.ranks_per_share = model_ranks;
  if (settings.reproducible) dealing.shards = static_cast<int>(settings.shards.value());
  return dealing;
}

void TrainingData::keep_training_share(Share share, const TrainingSettings& settings,
                                       Communicator& communicator) {
  longest = train.header;
  if (has_unknown_lengths(longest) && (!train.dataset || settings.find_batchsize))
    longest = longest_of_ranks(share, communicator);
  train.keep(with_augmentation(std::move(share), settings));
}

void TrainingData::keep_test_share(Share share, const TrainingSettings& settings) {
  test->keep(with_standardization(std::move(share), settings));
}

// --- batches ---

// One thread augments several times as many images as a core trains on. Reading plain examples
// takes less time than waking a thread.
std::int64_t loader_threads(const TrainingSettings& settings, const DatasetHeader& header) {
  const bool has_files = std::ranges::any_of(header.fields, &Field::is_image_file);
  return settings.loader_threads.value_or(settings.augment || has_files ? 1 : 0);
}

std::int64_t batches_ahead(const TrainingSettings& settings, const DatasetHeader& header) {
  const std::int64_t threads = loader_threads(settings, header);
  return threads > 0 ? threads + 1 : 0;
}

std::unique_ptr<Iterator> training_batches(const TrainingData& data,
                                           const TrainingSettings& settings,
                                           const RankSetup& setup) {
  ShareIteratorOptions reading;
  reading.global_batch = global_batch(settings, setup.grid->models());
  reading.shuffle = true;
  reading.seed = static_cast<std::uint64_t>(settings.seed);
  reading.marks_shards = settings.reproducible;
  reading.buckets = data.buckets;
  return brought_to(setup.batch_device, std::make_unique<ShareIterator>(*data.train.share, reading),
                    data.train.header, settings);
}

std::unique_ptr<Iterator> test_batches(const TrainingData& data, const TrainingSettings& settings,
                                       const RankSetup& setup) {
  ShareIteratorOptions reading;
  reading.repeat = false;
  if (settings.reproducible) {
    reading.global_batch =
        settings.test_batchsize.value_or(global_batch(settings, setup.grid->models()));
    reading.marks_shards = true;
  } else {
    reading.batch_size =
        settings.test_batchsize.value_or(largest_rank_batch(settings, setup.grid->models()));
  }
  return brought_to(setup.batch_device, std::make_unique<ShareIterator>(*data.test->share, reading),
                    data.test->header, settings);
}

}  // namespace tasuki::program
