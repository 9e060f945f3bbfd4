// The data of a run: found, checked, scattered to the ranks, and read in batches.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataset/catalog.hpp"
#include "dataset/scatter.hpp"
#include "program/data/program_data.hpp"
#include "program/start/rank_setup.hpp"

namespace tasuki::program {

// The examples to train on, or those to evaluate on.
struct SplitData {
  DatasetHeader header;
  // Until keep(), after which no rank holds more than its share:
  OpenSource open;                     // for rank 0
  std::unique_ptr<DataSource> source;  // on rank 0, after check_files()
  // With ProgramData::every_rank_has_data, in place of both; it may have transforms.
  std::shared_ptr<const Dataset> dataset;
  // With ProgramData::stream_images: the files behind `dataset`.
  std::shared_ptr<const ImageStream> stream;
  bool is_decoded = false;  // all image files were, once, and can be read
  // Image files that --skip-damaged left out, by their names below the data's folder (or a list's
  // root).
  std::vector<std::string> left_out;
  // After keep():
  std::optional<Share> share;

  // The examples for scatter_dataset(): `source`, or else opened anew.
  std::unique_ptr<DataSource> take_source();
  // This rank's share: sent by rank 0, which reads the files, or taken from `dataset`. Collective.
  Share deal(Communicator& communicator, const ScatterOptions& options);
  // Keeps a share and releases everything else.
  void keep(Share own);
};

struct TrainingData {
  std::string place;                     // the folder, for messages
  std::vector<std::string> class_names;  // of streamed images, if they are known
  SplitData train;
  std::optional<SplitData> test;
  std::optional<LengthBuckets> buckets;  // of training batches
  std::vector<DataVocabulary> vocabularies;
  // After keep_training_share(): the header of the training examples, in which ragged fields
  // without a maximal length are as long as the longest example of all ranks. With
  // every_rank_has_data, the examples are read for it only with --find-batchsize.
  DatasetHeader longest;

  // Opens the files and checks that they can be read; reads all examples with --check-data.
  // Collective.
  void check_files(const TrainingSettings& settings, const RankSetup& setup);
  // Keep this rank's share, with augmentation if the settings ask for it. Collective.
  void keep_training_share(Share share, const TrainingSettings& settings,
                           Communicator& communicator);
  void keep_test_share(Share share, const TrainingSettings& settings);
};

// How training examples are dealt: a permutation of --seed, among --shards. `model_ranks`
// neighbours get the same.
ScatterOptions dealing_of(const TrainingSettings& settings, int model_ranks);
// How test examples are dealt: in their order, and with --reproducible among --shards.
ScatterOptions test_dealing_of(const TrainingSettings& settings, int model_ranks);

// TrainingData::longest of a split without its share yet; rank 0 reads all examples if it has
// to. Collective.
DatasetHeader read_longest(const SplitData& split, Communicator& communicator);

// Finds the data of the program of this name and reads what is known without reading examples. With
// --skip-damaged, image files that cannot be read are left out: those that the resumed run left
// out, or those that are found now. Data without examples are an error. Collective.
TrainingData find_data(const ProgramData& program, const std::string& name,
                       const TrainingSettings& settings, const RankSetup& setup);

// Batches for RankSetup::batch_device, read ahead by --loader-threads: for training shuffled and
// without end, for tests in order for one epoch.
std::unique_ptr<Iterator> training_batches(const TrainingData& data,
                                           const TrainingSettings& settings,
                                           const RankSetup& setup);
std::unique_ptr<Iterator> test_batches(const TrainingData& data, const TrainingSettings& settings,
                                       const RankSetup& setup);

// --loader-threads, or the default for the data.
std::int64_t loader_threads(const TrainingSettings& settings, const DatasetHeader& header);
// Batches that are held besides the one in use.
std::int64_t batches_ahead(const TrainingSettings& settings, const DatasetHeader& header);

}  // namespace tasuki::program
