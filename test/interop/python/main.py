"""The Python side of the interop suite, on the client whose core is RocketMQ's C++ library: one sub-command a run, JSON lines on
standard output, exit code 0 unless the sub-command failed. The messages are the Java side's: a function of their index."""

import argparse
import collections
import hashlib
import json
import sys
import threading

from rocketmq.client import Message, Producer, PullConsumer, PushConsumer, RecvMessage
from rocketmq.ffi import _CConsumeStatus as ConsumeStatus

STDOUT = threading.Lock()


def line(**row):
    with STDOUT:
        print(json.dumps(row), flush=True)


def message(o, index):
    m = Message(o.topic)
    m.set_body(f"{o.prefix}-{index} Größe 大小 😀")
    m.set_property("index", str(index))
    if o.tags:
        tags = o.tags.split(",")
        m.set_tags(tags[index % len(tags)])
    if o.keys:
        m.set_keys(f"{o.prefix}-key-{index}")
    if o.delay_level:
        m.set_delay_time_level(o.delay_level)
    return m


def sent(index, result):
    line(sent=index, status=f"SEND_{result.status.name}", msgId=result.msg_id, queueOffset=result.offset)


def produce(o):
    p = Producer(o.group, timeout=15_000)
    p.set_namesrv_addr(o.namesrv)
    p.start()
    indexes = range(o.start, o.start + o.count)
    if o.mode == "sync":
        for i in indexes:
            sent(i, p.send_sync(message(o, i)))
    elif o.mode == "oneway":
        for i in indexes:
            p.send_oneway(message(o, i))
            line(oneway=i)
    elif o.mode == "batch":
        sent(o.start, p.send_batch([message(o, i) for i in indexes]))
    elif o.mode == "orderly":
        for i in indexes:
            sent(i, p.send_orderly(message(o, i), o.queue, queue_selector=lambda size, m, arg: o.queue))
    elif o.mode == "async":
        left = threading.Semaphore(0)
        for i in indexes:
            def success(result, index=i):
                sent(index, result)
                left.release()

            def failure(error, index=i):
                line(failed=index, reason=str(error))
                left.release()

            p.send_async(message(o, i), success, failure)
        for _ in indexes:
            left.acquire()
    else:
        raise ValueError(f"mode {o.mode!r}")
    p.shutdown()


def received(m, **more):
    line(
        received=True,
        topic=m.topic,
        queueId=m.queue_id,
        queueOffset=m.queue_offset,
        msgId=m.id,
        bodySha256=hashlib.sha256(m.body).hexdigest(),
        bodyLength=len(m.body),
        tags=text(m.tags),
        keys=text(m.keys),
        index=text(m["index"]),
        reconsumeTimes=m.reconsume_times,
        **more,
    )


def text(value):
    return value.decode() if isinstance(value, bytes) else value


def consume(o):
    c = PushConsumer(o.group, orderly=o.orderly)
    c.set_namesrv_addr(o.namesrv)
    c.set_instance_name(o.instance)
    deliveries = collections.Counter()
    lock = threading.Lock()

    def arrived(consumer, handle):
        m = RecvMessage(handle)
        with lock:
            deliveries[m.id] += 1
            delivery = deliveries[m.id]
        received(m, delivery=delivery)
        return (ConsumeStatus.RECONSUME_LATER if delivery <= o.fail_first else ConsumeStatus.CONSUME_SUCCESS).value

    c.subscribe(o.topic, None, o.expression)
    # The callback that `subscribe` makes raises again what its listener raised, which ctypes takes for success.
    c._register_callback(arrived)
    c.start()
    line(started=True)
    sys.stdin.read()
    c.shutdown()


def pull(o):
    c = PullConsumer(o.group)
    c.set_namesrv_addr(o.namesrv)
    c.start()
    for m in c.pull(o.topic, o.expression):
        received(m)
    c.shutdown()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--namesrv", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--group", default="interop-python")
    parser.add_argument("--mode", default="sync", help="sync, async, oneway, batch or orderly")
    parser.add_argument("--tags", default="", help="with commas, in turn")
    parser.add_argument("--prefix", default="m", help="of bodies and keys")
    parser.add_argument("--expression", default="*")
    parser.add_argument("--instance", default="python")
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--queue", type=int, default=0, help="of orderly sends")
    parser.add_argument("--delay-level", type=int, default=0)
    parser.add_argument("--fail-first", type=int, default=0, help="deliveries of each message to refuse")
    parser.add_argument("--keys", type=lambda value: value == "true", default=False)
    parser.add_argument("--orderly", type=lambda value: value == "true", default=False)
    o = parser.parse_args()
    try:
        COMMANDS[o.command](o)
    except Exception as error:
        line(error=f"{type(error).__name__}: {error}")
        return 1
    line(done=True)
    return 0


COMMANDS = {"produce": produce, "consume": consume, "pull": pull}

if __name__ == "__main__":
    sys.exit(main())
