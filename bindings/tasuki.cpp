// The functions of tasuki.h: each calls GuestModel, and turns exceptions into a code and a line.
#include "bindings/tasuki.h"

#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "bindings/arrays.hpp"
#include "bindings/guest_model.hpp"
#include "communicator/mpi/mpi.hpp"
#include "core/error.hpp"
#include "core/printable.hpp"
#include "core/version.hpp"
#include "tensor/out_of_memory.hpp"

struct tasuki_model : tasuki::bindings::GuestModel {
  using GuestModel::GuestModel;
};

// What programs may rely on is what the library throws.
static_assert(TASUKI_USAGE == int(tasuki::ErrorKind::usage) &&
              TASUKI_DATA == int(tasuki::ErrorKind::data) &&
              TASUKI_MISSING == int(tasuki::ErrorKind::missing) &&
              TASUKI_UNAVAILABLE == int(tasuki::ErrorKind::unavailable) &&
              TASUKI_INTERNAL == int(tasuki::ErrorKind::internal) &&
              TASUKI_CANNOT_WRITE == int(tasuki::ErrorKind::cannot_write) &&
              TASUKI_IO == int(tasuki::ErrorKind::io) &&
              TASUKI_HANG == int(tasuki::ErrorKind::hang) &&
              TASUKI_DISAGREEMENT == int(tasuki::ErrorKind::disagreement) &&
              TASUKI_CONFIG == int(tasuki::ErrorKind::config));

namespace {

using tasuki::Error;
using tasuki::ErrorKind;
using tasuki::ErrorScope;
using tasuki::bindings::not_null;

thread_local std::string last_error;

int keep_error(int code, const char* message, const tasuki_model* model) noexcept {
  try {
    // Of several lines the first says what is wrong, and the last one what to do.
    const std::string_view all = message;
    last_error = tasuki::message_line(all.substr(0, all.find('\n')));
    if (const std::size_t last = all.rfind('\n'); last != std::string_view::npos)
      last_error += "; " + tasuki::message_line(all.substr(last + 1));
    if (model != nullptr) last_error.insert(0, model->who() + ": ");
  } catch (...) {
    last_error.clear();  // no memory even for this
  }
  return code;
}

// Calls `work`; an error of this rank alone is kept with the rank that `model` knows.
template <class Work>
int guarded(const tasuki_model* model, const Work& work) noexcept {
  try {
    work();
    return TASUKI_OK;
  } catch (const tasuki::OutOfMemory& error) {
    return keep_error(TASUKI_NO_MEMORY, error.what(), model);
  } catch (const tasuki::bindings::NoMemoryHere& error) {
    return keep_error(TASUKI_NO_MEMORY, error.what(), nullptr);
  } catch (const Error& error) {
    const bool is_of_all = error.scope() != ErrorScope::this_rank;
    return keep_error(error.exit_code(), error.what(), is_of_all ? nullptr : model);
  } catch (const std::bad_alloc&) {
    return keep_error(TASUKI_NO_MEMORY, "there is not enough memory", model);
  } catch (const std::exception& error) {
    return keep_error(TASUKI_INTERNAL, error.what(), model);
  } catch (...) {
    return keep_error(TASUKI_INTERNAL, "an exception of unknown type", model);
  }
}

void check_mpi() {
  int has_begun = 0, has_ended = 0;
  TASUKI_MPI(MPI_Initialized, &has_begun);
  TASUKI_MPI(MPI_Finalized, &has_ended);
  if (has_begun == 0 || has_ended != 0)
    tasuki::fail(ErrorKind::usage, "expected a call between MPI_Init and MPI_Finalize");
}

void check_communicator(MPI_Comm comm) {
  // Open MPI makes a null pointer of a handle of Fortran that it does not know.
  if (comm == MPI_COMM_NULL || comm == MPI_Comm{})
    tasuki::fail(ErrorKind::usage, "comm: expected a communicator, found none");
  int has_two_groups = 0;
  TASUKI_MPI(MPI_Comm_test_inter, comm, &has_two_groups);
  if (has_two_groups != 0)
    tasuki::fail(ErrorKind::usage, "comm: expected a communicator of one group, found one of two");
}

// A null pointer fails where an empty line does, so that no rank is left waiting.
std::string line(const char* text) {
  return text == nullptr ? "" : text;
}

}  // namespace

const char* tasuki_error(void) {
  return last_error.c_str();
}

const char* tasuki_version(void) {
  static const std::string release = [] {
    const std::string all = tasuki::version();
    return all.substr(0, all.find(' '));
  }();
  return release.c_str();
}

int tasuki_create(MPI_Comm comm, const char* network, const char* loss, const char* settings,
                  tasuki_model** model) {
  return guarded(nullptr, [&] {
    *not_null(model, "model") = nullptr;
    check_mpi();
    check_communicator(comm);
    *model =
        std::make_unique<tasuki_model>(comm, line(network), line(loss), line(settings)).release();
  });
}

int tasuki_create_f(MPI_Fint comm, const char* network, const char* loss, const char* settings,
                    tasuki_model** model) {
  MPI_Comm of_c = MPI_COMM_NULL;
  const int code = guarded(nullptr, [&] {
    *not_null(model, "model") = nullptr;
    check_mpi();
    of_c = MPI_Comm_f2c(comm);
  });
  return code == TASUKI_OK ? tasuki_create(of_c, network, loss, settings, model) : code;
}

int tasuki_destroy(tasuki_model* model) {
  return guarded(nullptr, [&] { delete model; });
}

int tasuki_train_step(tasuki_model* model, const tasuki_array* x, const tasuki_array* t,
                      double* loss) {
  return guarded(model, [&] { not_null(model, "model")->train_step(x, t, loss); });
}

int tasuki_evaluate(tasuki_model* model, const tasuki_array* x, const tasuki_array* t,
                    double* loss) {
  return guarded(model, [&] {
    const double mean = not_null(model, "model")->evaluate(x, t);
    *not_null(loss, "loss") = mean;
  });
}

int tasuki_predict(tasuki_model* model, const tasuki_array* x, const tasuki_array* y) {
  return guarded(model, [&] { not_null(model, "model")->predict(x, y); });
}

int tasuki_set(tasuki_model* model, const char* name, double value) {
  return guarded(model, [&] { not_null(model, "model")->set(not_null(name, "name"), value); });
}

int tasuki_get(tasuki_model* model, const char* name, double* value) {
  return guarded(model, [&] {
    const double found = not_null(model, "model")->get(not_null(name, "name"));
    *not_null(value, "value") = found;
  });
}

int tasuki_save(tasuki_model* model, const char* path) {
  return guarded(model, [&] { not_null(model, "model")->save(line(path)); });
}

int tasuki_load(tasuki_model* model, const char* path) {
  return guarded(model, [&] { not_null(model, "model")->load(line(path)); });
}

int tasuki_checkpoint(tasuki_model* model, const char* path) {
  return guarded(model, [&] { not_null(model, "model")->checkpoint(line(path)); });
}

int tasuki_resume(tasuki_model* model, const char* path) {
  return guarded(model, [&] { not_null(model, "model")->resume(line(path)); });
}
