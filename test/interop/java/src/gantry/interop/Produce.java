package gantry.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Sends {@code --count} messages in one of the modes sync, async, oneway and batch; one line a request. With {@code --timer-ms} they are
 * delivered so much later, each one {@code --timer-step-ms} behind the one before.
 */
final class Produce {
    private Produce() {
    }

    static void run(Args args) throws Exception {
        DefaultMQProducer producer = producer(args);
        Messages messages = new Messages(args);
        int count = args.number("count", 1);
        int start = args.number("start", 0);
        String mode = args.text("mode", "sync");
        int batch = args.number("batch", 8);
        int queue = args.number("queue", -1);
        MessageQueue target = queue < 0 ? null : queue(producer, args.need("topic"), queue);
        switch (mode) {
            case "sync":
                for (int i = start; i < start + count; i++) {
                    Message message = messages.make(i);
                    if (args.number("delay-level", 0) > 0) {
                        message.setDelayTimeLevel(args.number("delay-level", 0));
                    }
                    if (args.number("timer-ms", 0) > 0) {
                        message.setDelayTimeMs(args.number("timer-ms", 0) + (long) (i - start) * args.number("timer-step-ms", 0));
                    }
                    try {
                        Out.line(Out.sent(i, target == null ? producer.send(message) : producer.send(message, target)));
                    } catch (Exception e) {
                        Out.line(Out.row("failed", i, "reason", String.valueOf(e)));
                    }
                }
                break;
            case "async":
                async(producer, messages, start, count);
                break;
            case "oneway":
                for (int i = start; i < start + count; i++) {
                    Message message = messages.make(i);
                    producer.sendOneway(message);
                    Out.line(Out.row("oneway", i, "msgId", Messages.uniqKey(message)));
                }
                // A one-way send has no answer: this answer tells that the ones before it on the connection were read.
                if (args.flag("barrier")) {
                    Out.line(Out.sent(start + count, producer.send(messages.make(start + count))));
                }
                break;
            case "batch":
                for (int i = start; i < start + count; i += batch) {
                    List<Message> members = new ArrayList<>();
                    for (int k = i; k < Math.min(i + batch, start + count); k++) {
                        members.add(messages.make(k));
                    }
                    SendResult result = target == null ? producer.send(members) : producer.send(members, target);
                    Out.line(Out.sent(i, result));
                }
                break;
            default:
                throw new IllegalArgumentException("mode " + mode);
        }
        if (args.flag("trace")) {
            untilTraced(producer);
        }
        producer.shutdown();
        Out.line(Out.row("done", true));
    }

    /** Traces are sent in the background, and those that are not sent yet end with the producer. */
    private static void untilTraced(DefaultMQProducer producer) throws Exception {
        for (int tried = 0; tried < 200; tried++) {
            try {
                for (MessageQueue queue : producer.fetchPublishMessageQueues("RMQ_SYS_TRACE_TOPIC")) {
                    if (producer.maxOffset(queue) > 0) {
                        return;
                    }
                }
            } catch (Exception e) {
                // There is no such topic yet.
            }
            Thread.sleep(100);
        }
        throw new IllegalStateException("no trace was stored");
    }

    static DefaultMQProducer producer(Args args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(args.text("group", "interop-producer"));
        producer.setEnableTrace(args.flag("trace"));
        producer.setNamesrvAddr(args.need("namesrv"));
        producer.setInstanceName(args.text("instance", "producer"));
        producer.setSendMsgTimeout(args.number("timeout-ms", 15_000));
        producer.setDefaultTopicQueueNums(args.number("queues", 4));
        producer.setCompressMsgBodyOverHowmuch(args.number("compress-over", 4096));
        producer.setPollNameServerInterval(1000);
        producer.setAutoBatch(args.flag("auto-batch"));
        producer.start();
        return producer;
    }

    private static MessageQueue queue(DefaultMQProducer producer, String topic, int queueId) throws Exception {
        for (MessageQueue queue : producer.fetchPublishMessageQueues(topic)) {
            if (queue.getQueueId() == queueId) {
                return queue;
            }
        }
        throw new IllegalArgumentException("topic " + topic + " has no queue " + queueId);
    }

    private static void async(DefaultMQProducer producer, Messages messages, int start, int count) throws Exception {
        Semaphore window = new Semaphore(64);
        CountDownLatch open = new CountDownLatch(count);
        for (int i = start; i < start + count; i++) {
            int index = i;
            window.acquire();
            producer.send(messages.make(i), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    Out.line(Out.sent(index, result));
                    window.release();
                    open.countDown();
                }

                @Override
                public void onException(Throwable e) {
                    Out.line(Out.row("failed", index, "reason", String.valueOf(e)));
                    window.release();
                    open.countDown();
                }
            });
        }
        if (!open.await(60, TimeUnit.SECONDS)) {
            throw new IllegalStateException(open.getCount() + " callbacks never came");
        }
    }
}
