package gantry.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Pulls everything of every queue of {@code --topics} from minimum to maximum offset: a line a message, a line a queue. */
final class Drain {
    private Drain() {
    }

    static void run(Args args) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(args.text("group", "interop-drain"));
        consumer.setNamesrvAddr(args.need("namesrv"));
        consumer.setInstanceName("drain");
        consumer.start();
        for (String topic : args.list("topics")) {
            List<MessageQueue> queues = new ArrayList<>(consumer.fetchSubscribeMessageQueues(topic));
            queues.sort(null);
            for (MessageQueue queue : queues) {
                drain(consumer, queue);
            }
        }
        consumer.shutdown();
        Out.line(Out.row("done", true));
    }

    private static void drain(DefaultMQPullConsumer consumer, MessageQueue queue) throws Exception {
        long min = consumer.minOffset(queue);
        long max = consumer.maxOffset(queue);
        long next = min;
        while (next < max) {
            PullResult result = consumer.pull(queue, "*", next, 32);
            if (result.getPullStatus() != PullStatus.FOUND) {
                throw new IllegalStateException(queue + " at " + next + " of " + max + ": " + result);
            }
            for (MessageExt message : result.getMsgFoundList()) {
                Map<String, Object> row = Out.message(message);
                row.put("received", true);
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
