#include <stdio.h>
#include <tasuki/tasuki.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  tasuki_model* model;
  double parameters = 0;
  int code = tasuki_create(MPI_COMM_WORLD, "mlp 3-4-1", "mean_squared_error", "sgd", &model);
  if (code == TASUKI_OK) code = tasuki_get(model, "parameters", &parameters);
  if (code != TASUKI_OK) fprintf(stderr, "%s\n", tasuki_error());
  tasuki_destroy(model);
  MPI_Finalize();
  printf("%g parameters\n", parameters);
  return code;
}
