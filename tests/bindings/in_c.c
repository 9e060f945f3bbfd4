#include "tests/bindings/in_c.h"

#include "bindings/tasuki.h"

int train_in_c(MPI_Comm comm, int steps, float* prediction) {
  tasuki_model* model;
  int code =
      tasuki_create(comm, "mlp 2-16-1 tanh", "mean_squared_error", "adam alpha=0.01", &model);
  for (int step = 0; step < steps && code == TASUKI_OK; ++step) {
    enum { examples = 32 };
    float x[examples][2], t[examples];
    for (int i = 0; i < examples; ++i) {
      x[i][0] = (float)((7 * i + step) % 32) / 32;
      x[i][1] = (float)((11 * i + 3 * step) % 32) / 32;
      t[i] = 2 * x[i][0] - x[i][1];
    }
    const tasuki_array inputs = {.data = x, .axes = 2, .shape = {examples, 2}};
    const tasuki_array targets = {.data = t, .axes = 1, .shape = {examples}};
    code = tasuki_train_step(model, &inputs, &targets, NULL);
  }
  float given[2] = {0.5f, 0.25f};
  if (code == TASUKI_OK)
    code = tasuki_predict(model, &(tasuki_array){.data = given, .axes = 2, .shape = {1, 2}},
                          &(tasuki_array){.data = prediction, .axes = 1, .shape = {1}});
  const int ended = tasuki_destroy(model);
  return code != TASUKI_OK ? code : ended;
}
