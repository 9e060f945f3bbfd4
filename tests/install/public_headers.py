#!/usr/bin/env python3
"""tasuki.hpp lists every public header. What those include is named here, and so is what is internal.

    public_headers.py SOURCE

A new header is therefore either included by tasuki.hpp (which has it installed) or added to the lists
below; a name that no longer fits is an error, too.
"""
import pathlib
import re
import sys

# Folders without headers for users, but for what public headers include.
INTERNAL_FOLDERS = {
    "array_files/hdf5",
    "communicator/algorithms", "communicator/cuda", "communicator/gpu", "communicator/kinds", "communicator/mpi",
    "communicator/node", "program/data", "program/flags", "program/report", "program/start", "saving/tensorboard",
    "tensor/cpu", "tensor/cuda", "tensor/cuda_loading", "training/recording",
}
# Headers of the other folders that only the library includes.
INTERNAL = {
    "array_files": ["element_type", "file_array", "hdf5_entry", "mapped_file", "zip_members"],
    "bindings": ["arrays", "guest_model", "lines", "losses"],
    "communicator": ["exchanges_under_way", "host_values", "number_bytes", "outcome", "packed_arrays",
                     "sum_search"],
    "core": ["background_thread", "control_groups", "descriptor", "environment", "file_lock", "growing_file",
             "hash",
             "job_process", "json", "keep_until_exit", "line_reader", "long_call", "named_file", "own_file",
             "own_library",
             "polite_wait", "printable", "process_state", "processor", "stopwatch", "system_error",
             "temporary_name", "text_parts", "utf8"],
    "dataset/files": ["cifar", "idx", "input_file", "text_file"],
    "dataset/images": ["image", "image_check", "image_formats", "image_record", "image_search",
                       "png_file", "resample"],
    "dataset/stream": ["stream_ends"],
    "job": ["activity_board", "heartbeat_datagram", "heartbeat_paths",
            "job_end", "job_failure", "launcher", "lost_connection", "mpi_settings", "node_heartbeats",
            "session_folder", "signals", "stall", "stall_text", "start_watch", "watchdog"],
    "nn": ["gradient_memory", "node", "value_memory"],
    "optimizer": ["built_in_rules", "divided_weights", "double_buffer", "exchange_trials", "gpu_double_buffer",
                  "gradient_slots", "kernel_hook", "power_sgd", "power_sgd_arithmetic", "range_exchange",
                  "unit_order", "update_plan", "weight_units"],
    "parallel/functions": ["exchange"],
    "program": ["device_workers", "extensions", "largest_batch", "recompute_loss"],
    "saving": ["checkpoint_writer", "local_steps_state", "regular_file", "retention", "writers"],
    "saving/onnx": ["entry", "graph", "graph_builder", "repeated", "sequence_translation",
                    "translation"],
    "tensor": ["bad_index", "clock_scope", "embed_check", "gather_check", "geometry", "half", "host_memory",
               "parallel", "recorder", "recurrent_check", "tree_product", "vectorize"],
    "training": ["device_clock", "gpu_sensors", "named_examples", "process_load", "step_hashes", "watched_value"],
    "training/extensions": ["best_checkpoint", "evaluation_pass", "replica_hash",
                            "table_layout"],
    "training/workers": ["replicas", "shard_threads", "worker_threads"],
}
# Headers that public ones include for a type or a member: installed, but tasuki.hpp does not list
# them.
INCLUDED = {
    "array_files": ["array_fields"],
    "communicator": ["gradient_view", "sliced_work"],
    "communicator/algorithms": ["algorithm_cost", "allreduce_algorithm", "shard_tree", "wire_format"],
    "communicator/mpi": ["transfer_sizes"],
    "core": ["exact_sum", "file", "own_process", "range", "terminal"],
    "dataset/images": ["exif", "image_file", "image_list", "image_view"],
    "dataset/stream": ["example_buffer"],
    "nn": ["call_recorder", "late_products", "module_memory"],
    "optimizer": ["product_sums", "replica", "shard_sums", "sharded_step"],
    "parallel": ["chain_plan", "sum_over_ranks"],
    "program/data": ["program_data"],
    "program/flags": ["batch_sizes", "option_value", "options", "training_flags", "training_settings"],
    "program/report": ["banner"],
    "saving": ["npz_entry", "state"],
    "tensor": ["image_transform", "operation_options", "reduce", "step_clock", "storage", "update_operations"],
    "tensor/cpu": ["instruction_set"],
    "training": ["output_folder", "step_rows", "step_table", "step_times"],
    "training/extensions": ["step_writer"],
    "training/recording": ["journal"],
}
# What is not part of the library.
OTHER_FOLDERS = {"apps", "bench", "build", "examples", "experiments", "tests", "tools"}


def reached(source):
    waiting, seen = ["tasuki.hpp"], set()
    while waiting:
        header = waiting.pop()
        if header not in seen:
            seen.add(header)
            text = (source / header).read_text()
            waiting += re.findall(r'^#include "([^"]+)"', text, re.MULTILINE)
    return seen


def names(folders):
    return {f"{folder}/{name}.hpp" for folder, listed in folders.items() for name in listed}


def all_headers(source):
    for folder in source.iterdir():
        if folder.is_dir() and not folder.name.startswith((".", *OTHER_FOLDERS)):
            yield from (path.relative_to(source).as_posix() for path in folder.rglob("*.hpp"))


def main():
    source = pathlib.Path(sys.argv[1])
    public = reached(source)
    internal, included = names(INTERNAL), names(INCLUDED)
    listed = set(re.findall(r'^#include "([^"]+)"', (source / "tasuki.hpp").read_text(),
                            re.MULTILINE))
    headers = set(all_headers(source))
    assert len(headers) > 200, f"only {len(headers)} headers found in {source}"

    complaints = []
    for header in sorted(headers - public - internal):
        if str(pathlib.PurePosixPath(header).parent) not in INTERNAL_FOLDERS:
            complaints.append(f"{header}: tasuki.hpp does not lead to it; include it there, or name "
                              f"it as internal in {pathlib.Path(__file__).name}")
    for header in sorted(internal & public):
        complaints.append(f"{header} is named as internal, but tasuki.hpp leads to it")
    for header in sorted(internal - headers):
        complaints.append(f"{header} is named as internal, but is not there")
    for header in sorted(public - listed - included - {"tasuki.hpp"}):
        complaints.append(f"{header}: a public header includes it, so it is installed; include it in "
                          f"tasuki.hpp, or name it in {pathlib.Path(__file__).name}")
    for header in sorted(included - (public - listed)):
        complaints.append(f"{header} is named as included by public headers, but is not")
    print("\n".join(complaints) or f"{len(public)} public headers")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
