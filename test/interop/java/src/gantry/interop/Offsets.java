package gantry.interop;

import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.admin.OffsetWrapper;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** The offsets that the broker keeps for {@code --group} on {@code --topic}, one line. */
final class Offsets {
    private Offsets() {
    }

    static void run(Args args) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt(20_000);
        admin.setNamesrvAddr(args.need("namesrv"));
        admin.setInstanceName("offsets");
        admin.start();
        Map<String, Object> table = new TreeMap<>();
        for (Map.Entry<MessageQueue, OffsetWrapper> e : admin.examineConsumeStats(args.need("group"), args.need("topic")).getOffsetTable().entrySet()) {
            table.put(String.valueOf(e.getKey().getQueueId()), Out.row("consumer", e.getValue().getConsumerOffset(), "broker", e.getValue().getBrokerOffset()));
        }
        Out.line(Out.row("offsets", table));
        admin.shutdown();
        Out.line(Out.row("done", true));
    }
}
