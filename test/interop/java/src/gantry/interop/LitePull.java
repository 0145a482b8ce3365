package gantry.interop;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** A lite pull consumer, subscribed or (with {@code --assign true}) assigned; ends after {@code --count} messages. */
final class LitePull {
    private LitePull() {
    }

    static void run(Args args) throws Exception {
        String topic = args.need("topic");
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(args.need("group"));
        consumer.setNamesrvAddr(args.need("namesrv"));
        consumer.setInstanceName("lite");
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAutoCommit(false);
        boolean assign = args.flag("assign");
        if (!assign) {
            String sql = args.text("sql", "");
            if (sql.isEmpty()) {
                consumer.subscribe(topic, args.text("expression", "*"));
            } else {
                consumer.subscribe(topic, MessageSelector.bySql(sql));
            }
        }
        consumer.start();
        if (assign) {
            Collection<MessageQueue> queues = consumer.fetchMessageQueues(topic);
            consumer.assign(queues);
            for (MessageQueue queue : queues) {
                consumer.seekToBegin(queue);
            }
        }
        int count = args.number("count", 1);
        long deadline = System.currentTimeMillis() + args.number("timeout-ms", 60_000);
        List<MessageExt> all = new ArrayList<>();
        while (all.size() < count && System.currentTimeMillis() < deadline) {
            for (MessageExt message : consumer.poll(1000)) {
                Map<String, Object> row = Out.message(message);
                row.put("received", true);
                Out.line(row);
                all.add(message);
            }
        }
        consumer.commit();
        consumer.shutdown();
        Out.line(Out.row("done", true));
    }
}
