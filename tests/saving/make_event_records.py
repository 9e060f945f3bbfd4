#!/usr/bin/env python3
"""Writes event_records.json: the bytes of events as TensorBoard's own classes write them, without their times.

    pip install tensorboard; tests/saving/make_event_records.py

event_file_test.cpp compares what EventFile writes.
"""
import json
import pathlib

from tensorboard.compat.proto import event_pb2, histogram_pb2, summary_pb2, tensor_pb2, tensor_shape_pb2
from tensorboard.plugins.hparams import plugin_data_pb2


def record(step=0, **fields):
    return event_pb2.Event(step=step, **fields).SerializeToString(deterministic=True).hex()


def summary(*values):
    return summary_pb2.Summary(value=values)


def value(**fields):
    return summary_pb2.Summary.Value(**fields)


def metadata(plugin, content=b""):
    return summary_pb2.SummaryMetadata(
        plugin_data=summary_pb2.SummaryMetadata.PluginData(plugin_name=plugin, content=content))


def settings():
    start = plugin_data_pb2.SessionStartInfo()
    start.hparams["batchsize"].number_value = 100
    start.hparams["lars"].bool_value = False
    start.hparams["optimizer"].string_value = "adam"
    content = plugin_data_pb2.HParamsPluginData(session_start_info=start)
    return value(tag="_hparams_/session_start_info",
                 metadata=metadata("hparams", content.SerializeToString(deterministic=True)))


def main():
    histogram = histogram_pb2.HistogramProto(min=1, max=65, num=3, sum=76, sum_squares=4326,
                                             bucket_limit=range(2, 66),
                                             bucket=[1] + [0] * 8 + [1] + [0] * 53 + [1])
    text = tensor_pb2.TensorProto(dtype=7, string_val=[b"a *text*"], tensor_shape=tensor_shape_pb2.TensorShapeProto(
        dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=1)]))
    records = {
        "version": record(file_version="brain.Event:2"),
        "restart": record(step=41, session_log=event_pb2.SessionLog(status=event_pb2.SessionLog.START)),
        "scalars": record(step=300, summary=summary(value(tag="main/loss", simple_value=0.25),
                                                    value(tag="lr", simple_value=-1e-3))),
        "histogram": record(step=7, summary=summary(value(tag="weights/l1/W", histo=histogram))),
        "text": record(step=8, summary=summary(value(tag="note", tensor=text, metadata=metadata("text")))),
        "settings": record(summary=summary(settings())),
    }
    path = pathlib.Path(__file__).with_name("event_records.json")
    path.write_text(json.dumps(records, indent=2) + "\n")


if __name__ == "__main__":
    main()
