package gantry.interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/**
 * A push consumer that prints each message, and its assigned queues whenever they change, until standard input ends.
 * With {@code --fail-first N} it refuses the first N deliveries of every message, which the broker then brings again; with
 * {@code --poison I} each delivery of the message of that index, and after {@code --max-reconsume N} of them it is a dead letter. With
 * {@code --pop} it asks the broker for its queues, and whether it is to pop them.
 */
final class Consume {
    private Consume() {
    }

    static void run(Args args) throws Exception {
        String topic = args.need("topic");
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args.need("group"));
        consumer.setNamesrvAddr(args.need("namesrv"));
        consumer.setInstanceName(args.text("instance", "consumer"));
        consumer.setConsumeFromWhere(args.text("from", "first").equals("first")
            ? ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET : ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
        consumer.setMessageModel(args.text("model", "cluster").equals("cluster")
            ? MessageModel.CLUSTERING : MessageModel.BROADCASTING);
        consumer.setPollNameServerInterval(1000);
        consumer.setPersistConsumerOffsetInterval(500);
        consumer.setConsumeThreadMin(4);
        consumer.setConsumeThreadMax(4);
        if (args.flag("pop")) {
            consumer.setClientRebalance(false);
        }
        String sql = args.text("sql", "");
        if (sql.isEmpty()) {
            consumer.subscribe(topic, args.text("expression", "*"));
        } else {
            consumer.subscribe(topic, MessageSelector.bySql(sql));
        }
        int failFirst = args.number("fail-first", 0);
        String poison = args.text("poison", "");
        if (args.number("max-reconsume", -1) >= 0) {
            consumer.setMaxReconsumeTimes(args.number("max-reconsume", -1));
        }
        Map<String, Integer> deliveries = new ConcurrentHashMap<>();
        if (args.flag("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (batch, context) -> {
                context.setSuspendCurrentQueueTimeMillis(100);
                return received(batch, deliveries) > failFirst && !holds(batch, poison) ? ConsumeOrderlyStatus.SUCCESS
                    : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (batch, context) ->
                received(batch, deliveries) > failFirst && !holds(batch, poison) ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS
                    : ConsumeConcurrentlyStatus.RECONSUME_LATER);
        }
        consumer.start();
        Out.line(Out.row("started", true));
        Thread watch = new Thread(() -> watchAssignment(consumer, topic));
        watch.setDaemon(true);
        watch.start();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        while (input.readLine() != null) {
            // Only the end of the input means something.
        }
        consumer.shutdown();
        Out.line(Out.row("done", true));
    }

    /** Prints the batch; the number of deliveries of its least delivered message. */
    private static int received(List<MessageExt> batch, Map<String, Integer> deliveries) {
        int least = Integer.MAX_VALUE;
        for (MessageExt message : batch) {
            Map<String, Object> row = Out.message(message);
            row.put("received", true);
            row.put("thread", Thread.currentThread().getId());
            String id = String.valueOf(row.get("uniqKey"));
            least = Math.min(least, deliveries.merge(id, 1, Integer::sum));
            row.put("delivery", deliveries.get(id));
            Out.line(row);
        }
        return least;
    }

    private static boolean holds(List<MessageExt> batch, String index) {
        return batch.stream().anyMatch(message -> index.equals(message.getUserProperty("index")));
    }

    private static void watchAssignment(DefaultMQPushConsumer consumer, String topic) {
        TreeSet<String> last = null;
        for (;;) {
            TreeSet<String> now = new TreeSet<>();
            for (MessageQueue queue : consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet()) {
                if (queue.getTopic().equals(topic)) {
                    now.add(queue.getBrokerName() + ":" + queue.getQueueId());
                }
            }
            if (!now.equals(last)) {
                Out.line(Out.row("assigned", now));
                last = now;
            }
            try {
                Thread.sleep(100);
            } catch (InterruptedException e) {
                return;
            }
        }
    }
}
