package gantry.interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * {@code --groups} new groups, one after the other in each of four threads: a consumer of a new topic starts, and {@code --count}
 * messages are sent right after, while it still asks where to begin. One line a group.
 */
final class Starts {
    private static final int QUEUES = 8;

    private Starts() {
    }

    static void run(Args args) throws Exception {
        int groups = args.number("groups", 20);
        DefaultMQAdminExt admin = new DefaultMQAdminExt();
        admin.setNamesrvAddr(args.need("namesrv"));
        admin.start();
        for (int i = 0; i < groups; i++) {
            admin.createAndUpdateTopicConfig(args.need("broker"), new TopicConfig(args.need("topic") + i, QUEUES, QUEUES, 6));
        }
        DefaultMQProducer producer = Produce.producer(args);
        ExecutorService threads = Executors.newFixedThreadPool(4);
        List<Future<?>> running = new ArrayList<>();
        for (int i = 0; i < groups; i++) {
            String topic = args.need("topic") + i;
            running.add(threads.submit(() -> {
                start(args, producer, topic);
                return null;
            }));
        }
        for (Future<?> one : running) {
            one.get();
        }
        producer.shutdown();
        admin.shutdown();
        Out.line(Out.row("done", true));
    }

    private static void start(Args args, DefaultMQProducer producer, String topic) throws Exception {
        int count = args.number("count", 10);
        Set<String> received = ConcurrentHashMap.newKeySet();
        CountDownLatch all = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("G-" + topic);
        consumer.setNamesrvAddr(args.need("namesrv"));
        consumer.setInstanceName(topic);
        consumer.setConsumeThreadMin(1);
        consumer.setConsumeThreadMax(1);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (batch, context) -> {
            for (MessageExt message : batch) {
                if (received.add(message.getMsgId())) {
                    all.countDown();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        // The producer knows the topic's queues before the consumer starts, so that nothing holds up the messages.
        producer.fetchPublishMessageQueues(topic);
        consumer.start();
        for (int i = 0; i < count; i++) {
            producer.send(new Message(topic, String.valueOf(i).getBytes(StandardCharsets.UTF_8)));
        }
        all.await(args.number("wait-ms", 30_000), TimeUnit.MILLISECONDS);
        Out.line(Out.row("started", topic, "received", received.size()));
        consumer.shutdown();
    }
}
