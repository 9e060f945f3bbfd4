// A model with two inputs, with all flags: do two vectors point the same way?
//   mpirun -np 2 two_inputs
#include <tasuki/tasuki.hpp>

using namespace tasuki;
namespace F = tasuki::functions;

namespace {

constexpr std::int64_t values = 4, units = 64;

// Both inputs go through the same layer; a second layer gets the two results side by side.
class TwinModel : public Module {
 public:
  TwinModel() : twin_(values, units), joined_(2 * units, units), out_(units, 2) {
    add("twin", twin_);
    add("joined", joined_);
    add("out", out_);
  }
  Variable operator()(const Variable& left, const Variable& right) {
    const Variable both = F::concat({F::relu(twin_(left)), F::relu(twin_(right))}, /*axis=*/1);
    return out_(F::relu(joined_(both)));
  }

 private:
  Linear twin_, joined_, out_;
};

// Pairs of vectors, and whether their inner product is positive.
std::unique_ptr<Dataset> made_up_pairs(std::int64_t examples, std::uint64_t seed) {
  std::vector<float> left, right;
  std::vector<std::int32_t> is_alike;
  RandomStream random(seed);
  for (std::int64_t i = 0; i < examples; ++i) {
    float product = 0;
    for (std::int64_t j = 0; j < values; ++j) {
      left.push_back(random.normal());
      right.push_back(random.normal());
      product += left.back() * right.back();
    }
    is_alike.push_back(product > 0 ? 1 : 0);
  }
  TensorField label = vector_field("is_alike", is_alike);
  label.is_target = true;
  label.classes = 2;
  return std::make_unique<TensorDataset>(std::vector{
      vector_field("left", left, {values}), vector_field("right", right, {values}), label});
}

TrainingModel create_twin(const DatasetHeader&) {
  auto model = std::make_unique<TwinModel>();
  LossFunction loss = [model = model.get()](const Batch& batch, Observation& report) {
    const Variable scores = (*model)(Variable(batch["left"]), Variable(batch["right"]));
    const Tensor& t = batch["is_alike"];
    const auto [correct, counted] = F::count_correct(scores, t);
    report.add_sum("accuracy", correct, counted);
    return F::softmax_cross_entropy(scores, t);
  };
  return {std::move(model), std::move(loss)};
}

}  // namespace

int main(int argc, char** argv) {
  TrainingProgram program("two_inputs", "learns whether two vectors point the same way");
  program.settings.epoch = 10;
  program.settings.batchsize = 50;
  program.settings.lr = 0.003;
  program.train_data = [] { return made_up_pairs(4000, 0); };
  program.test_data = [] { return made_up_pairs(500, 1); };
  program.create_model = create_twin;
  return program.run(argc, argv);
}
