#include "apps/mlp_on_two_ranks.hpp"

#include <string>

#include "parallel/mlp_over_ranks.hpp"

namespace tasuki {

void MlpOnTwoRanks::add_to(TrainingProgram& program) {
  program.flags.add("unit,u", units, {1, 1 << 20}, "N", "units in each of the two hidden layers")
      .in_short("units in each hidden layer");
  program.flags
      .add("micro-batches", micro_batches, {1, 1 << 20}, "M",
           "parts of each batch; with several, both ranks of a model compute at the same "
           "time, and the second one has the loss")
      .in_short("parts of each batch, in a pipeline");
  program.dataset = "mnist";
  program.example_shape = Shape{784};
  program.create_part = [this](const DatasetHeader& data, Communicator& model) {
    const std::int64_t classes = data.field("t").classes;
    if (micro_batches > 1)
      return create_stage_of_classifier(mlp_in_stages(model, 784, units, classes), micro_batches);
    return create_part_of_classifier(mlp_over_ranks(model, 784, units, classes), model.rank() == 0);
  };
  program.banner = [this] { return program::BannerLines{{"Num unit", std::to_string(units)}}; };
}

}  // namespace tasuki
