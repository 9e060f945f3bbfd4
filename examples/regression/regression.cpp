// Regression from a table, with a Trainer and without flags: mpirun -np 2 regression [TABLE]
//
// TABLE has a header line and a column "price"; all other columns are inputs. Without one, a table
// of made-up flats is written to flats.csv first.
#include <cmath>
#include <fstream>

#include <tasuki/tasuki.hpp>

using namespace tasuki;
namespace F = tasuki::functions;

namespace {

constexpr std::int64_t batch_size = 32;

// Writes made-up flats. Prices are highest in the middle floors, so they are not a linear function.
void write_table(const char* path) {
  std::ofstream table(path);
  table << "area,rooms,floor,price\n";
  for (int i = 0; i < 1000; ++i) {
    const double area = (i * 37 % 100) / 100.0, rooms = (i * 7 % 5) / 5.0;
    const double floor = (i * 13 % 7) / 6.0;
    table << area << ',' << rooms << ',' << floor << ','
          << 2 * area + rooms - 3 * std::pow(floor - 0.5, 2) << '\n';
  }
}

int train(int argc, char** argv) {
  const auto communicator = create_communicator("auto");
  set_cpu_threads(1);  // per rank; more where there are more cores than ranks
  const bool is_root = communicator->rank() == 0;
  const char* const table = argc > 1 ? argv[1] : "flats.csv";
  if (argc == 1 && is_root) write_table(table);

  // Rank 0 reads the table and sends each rank its share of the lines. An error in the table ends
  // the job on all ranks.
  Share share = scatter_dataset([&] { return open_csv(table, {.t = {"price"}}); }, *communicator,
                                {.shuffle = true});
  const std::int64_t columns = share.dataset->header().field("x").shape[0];

  Sequential model;
  model.append("l1", std::make_unique<Linear>(columns, 32))
      .append(F::tanh)
      .append("l2", std::make_unique<Linear>(32, 1));
  model.initialize(/*seed=*/0);
  const auto optimizer = create_multi_node_optimizer(create_optimizer("adam"), *communicator);
  optimizer->setup(model);
  optimizer->set("alpha", 0.01);

  // Called with batches of this rank; returns the mean over their examples.
  const LossFunction loss = [&model](const Batch& batch, Observation&) {
    return F::mean_squared_error(model(Variable(batch["x"])), batch["t"]);
  };
  auto updater = std::make_unique<StandardUpdater>(
      create_shuffled_iterator(share, batch_size, /*seed=*/0), *optimizer, loss);
  Trainer trainer(std::move(updater), stop_after(20), "result_regression");
  trainer.extend(std::make_unique<Evaluator>(create_serial_iterator(share, batch_size), loss));
  trainer.extend(std::make_unique<LogReport>());
  trainer.extend(std::make_unique<PrintReport>(
      std::vector<std::string>{"epoch", "main/loss", "validation/main/loss"}));
  trainer.run();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_job(argc, argv, train);
}
