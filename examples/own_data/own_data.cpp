// A data set and an iterator of your own, and fields with names of your own: predicts the next
// value of a series from those before. mpirun -np 2 own_data
#include <algorithm>
#include <cmath>
#include <vector>

#include <tasuki/tasuki.hpp>

using namespace tasuki;
namespace F = tasuki::functions;

namespace {

constexpr std::int64_t window = 16;

// Two waves and noise.
std::vector<float> made_up_series(std::int64_t length, std::uint64_t seed) {
  RandomStream random(seed);
  const float phase = 6.28F * random.uniform();
  std::vector<float> series(static_cast<std::size_t>(length));
  for (std::size_t i = 0; i < series.size(); ++i) {
    const auto time = static_cast<float>(i);
    series[i] =
        std::sin(0.3F * time + phase) + 0.5F * std::sin(0.11F * time) + 0.02F * random.normal();
  }
  return series;
}

// Example i is the window of the series that begins at i, and the value that follows it. Windows
// overlap; they are cut out when a batch is read.
class Windows : public Dataset {
 public:
  explicit Windows(std::vector<float> series) : series_(std::move(series)) {
    header_.count = std::ssize(series_) - window;
    header_.fields = {{.name = "past", .shape = {window}},
                      {.name = "next", .shape = {1}, .is_target = true}};
  }
  const DatasetHeader& header() const override { return header_; }

  // Called by several threads at once if batches are read ahead.
  void read(std::int64_t i, std::size_t field, FieldWriter& into) const override {
    const std::span<float> values = into.as<float>();
    const std::int64_t first = field == header_.index_of("next") ? i + window : i;
    std::copy_n(series_.begin() + first, values.size(), values.begin());
  }

 private:
  std::vector<float> series_;
  DatasetHeader header_;
};

// Data augmentation: negates the values of about half of the batches. The choice depends only on
// the iterator's position, so all ranks make the same one and a resumed run repeats it. The batches
// are already on the device that trains, so the values are negated there.
class MirroredBatches : public ForwardingIterator {
 public:
  using ForwardingIterator::ForwardingIterator;

  Batch next() override {
    const IteratorState position = state();
    RandomStream random(static_cast<std::uint64_t>(position.epoch),
                        static_cast<std::uint64_t>(position.step));
    const float sign = random.below(2) == 0 ? 1.0F : -1.0F;
    Batch batch = inner().next();
    for (BatchField field : std::vector(batch.fields())) {
      field.values = batch[field.name].clone();
      field.source = nullptr;  // the values are here now
      backend(field.values.device()).scale(field.values, sign);
      batch.set(std::move(field));
    }
    return batch;
  }
};

}  // namespace

int main(int argc, char** argv) {
  TrainingProgram program("own_data", "predicts the next value of a series");
  program.settings.epoch = 10;
  program.settings.batchsize = 50;
  program.settings.lr = 0.003;

  // Generating the series is cheap: every rank generates all of it and takes its share of the
  // windows.
  program.every_rank_has_data = true;
  program.train_data = [] { return std::make_unique<Windows>(made_up_series(4000 + window, 0)); };
  program.test_data = [] { return std::make_unique<Windows>(made_up_series(500 + window, 1)); };
  program.wrap_batches = [](std::unique_ptr<Iterator> batches) {
    return std::make_unique<MirroredBatches>(std::move(batches));
  };
  program.create_model = [](const DatasetHeader&) {
    auto model = std::make_unique<Sequential>();
    model->append("l1", std::make_unique<Linear>(window, 64))
        .append(F::tanh)
        .append("l2", std::make_unique<Linear>(64, 1));
    LossFunction loss = [model = model.get()](const Batch& batch, Observation&) {
      return F::mean_squared_error((*model)(Variable(batch["past"])), batch["next"]);
    };
    return TrainingModel{std::move(model), std::move(loss)};
  };
  program.columns = {"epoch", "main/loss", "validation/main/loss", "elapsed_time"};
  return program.run(argc, argv);
}
