package gantry.interop;

import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** The pull consumer's calls on one queue of a topic: offsets, every status of a pull, a held pull, stored offsets. */
final class Pull {
    private Pull() {
    }

    static void run(Args args) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(args.need("group"));
        consumer.setNamesrvAddr(args.need("namesrv"));
        consumer.setInstanceName("pull");
        consumer.setBrokerSuspendMaxTimeMillis(1000);
        consumer.start();
        MessageQueue queue = null;
        for (MessageQueue candidate : consumer.fetchSubscribeMessageQueues(args.need("topic"))) {
            if (candidate.getQueueId() == args.number("queue", 0)) {
                queue = candidate;
            }
        }
        if (queue == null) {
            throw new IllegalStateException("no queue " + args.number("queue", 0));
        }
        long min = consumer.minOffset(queue);
        long max = consumer.maxOffset(queue);
        Out.line(Out.row("step", "offsets", "min", min, "max", max));
        MessageExt middle = pulled("all", consumer.pull(queue, "*", min, 32));
        pulled("tag", consumer.pull(queue, args.text("expression", "TagA"), min, 32));
        pulled("no-match", consumer.pull(queue, "NoSuchTag", min, 32));
        pulled("end", consumer.pull(queue, "*", max, 32));
        pulled("beyond", consumer.pull(queue, "*", max + 100, 32));
        pulled("held", consumer.pullBlockIfNotFound(queue, "*", max, 32));
        consumer.updateConsumeOffset(queue, min + 3);
        consumer.getDefaultMQPullConsumerImpl().getOffsetStore().persist(queue);
        Out.line(Out.row("step", "committed", "offset", committed(consumer, queue, min + 3)));
        if (middle != null) {
            Out.line(Out.row("step", "search", "offset", consumer.searchOffset(queue, middle.getStoreTimestamp()),
                "of", middle.getQueueOffset()));
        }
        Out.line(Out.row("step", "search-future", "offset", consumer.searchOffset(queue, System.currentTimeMillis() + 3_600_000)));
        Out.line(Out.row("step", "search-past", "offset", consumer.searchOffset(queue, 1000)));
        Out.line(Out.row("step", "earliest", "time", String.valueOf(consumer.earliestMsgStoreTime(queue))));
        consumer.shutdown();
        Out.line(Out.row("done", true));
    }

    /**
     * The offset that the broker has. A commit is one-way, and this client hands it to its connection by way of another
     * thread: a query that follows at once may be sent before it.
     */
    private static long committed(DefaultMQPullConsumer consumer, MessageQueue queue, long wanted) throws Exception {
        long deadline = System.currentTimeMillis() + 5000;
        long offset = consumer.fetchConsumeOffset(queue, true);
        while (offset != wanted && System.currentTimeMillis() < deadline) {
            Thread.sleep(20);
            offset = consumer.fetchConsumeOffset(queue, true);
        }
        return offset;
    }

    /** Prints the outcome of a pull; its last message, or null. */
    private static MessageExt pulled(String step, PullResult result) {
        int count = result.getMsgFoundList() == null ? 0 : result.getMsgFoundList().size();
        Map<String, Object> row = Out.row("step", step, "status", result.getPullStatus().name(), "next", result.getNextBeginOffset(),
            "min", result.getMinOffset(), "max", result.getMaxOffset(), "count", count);
        Out.line(row);
        return count == 0 ? null : result.getMsgFoundList().get(count - 1);
    }
}
