package gantry.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Pulls everything of every queue of {@code --topics} from minimum to maximum offset: a line a message, a line a queue. With {@code --tag}
 * only messages with that tag. {@code --light}: light queues, which no route names, at the broker of the topics.
 */
final class Drain {
    private Drain() {
    }

    static void run(Args args) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(args.text("group", "interop-drain"));
        consumer.setNamesrvAddr(args.need("namesrv"));
        consumer.setInstanceName("drain");
        consumer.start();
        String expression = args.text("tag", "*");
        String brokerName = null;
        for (String topic : args.list("topics")) {
            List<MessageQueue> queues = new ArrayList<>(consumer.fetchSubscribeMessageQueues(topic));
            queues.sort(null);
            for (MessageQueue queue : queues) {
                drain(consumer, queue, expression);
                brokerName = queue.getBrokerName();
            }
        }
        for (String light : args.list("light")) {
            drain(consumer, new MessageQueue(light, brokerName, 0), expression);
        }
        consumer.shutdown();
        Out.line(Out.row("done", true));
    }

    private static void drain(DefaultMQPullConsumer consumer, MessageQueue queue, String expression) throws Exception {
        long min = consumer.minOffset(queue);
        long max = consumer.maxOffset(queue);
        long next = min;
        while (next < max) {
            PullResult result = consumer.pull(queue, expression, next, 32);
            boolean found = result.getPullStatus() == PullStatus.FOUND;
            if (!found && (expression.equals("*") || result.getPullStatus() != PullStatus.NO_MATCHED_MSG)) {
                throw new IllegalStateException(queue + " at " + next + " of " + max + ": " + result);
            }
            long place = next;
            for (MessageExt message : found ? result.getMsgFoundList() : List.<MessageExt>of()) {
                Map<String, Object> row = Out.message(message);
                row.put("received", true);
                if (!message.getTopic().equals(queue.getTopic())) {
                    // The record says where it lies in its own topic.
                    row.put("own", message.getTopic() + ":" + message.getQueueId() + ":" + message.getQueueOffset());
                    row.put("topic", queue.getTopic());
                    row.put("queueId", queue.getQueueId());
                    row.put("queueOffset", place++);
                }
                Out.line(row);
            }
            if (result.getNextBeginOffset() <= next) {
                throw new IllegalStateException(queue + " stays at " + next);
            }
            next = result.getNextBeginOffset();
        }
        Out.line(Out.row("queue", queue.getTopic() + ":" + queue.getQueueId(), "min", min, "max", max));
    }
}
