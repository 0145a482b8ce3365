package gantry.interop;

import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.admin.ConsumeStats;
import org.apache.rocketmq.remoting.protocol.body.Connection;
import org.apache.rocketmq.remoting.protocol.body.ConsumeMessageDirectlyResult;
import org.apache.rocketmq.remoting.protocol.body.ConsumerConnection;
import org.apache.rocketmq.remoting.protocol.body.ConsumerRunningInfo;
import org.apache.rocketmq.remoting.protocol.body.ProducerTableInfo;
import org.apache.rocketmq.remoting.protocol.body.QueueTimeSpan;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Calls of the admin client that concern consumer groups and their live clients, one a step. */
final class GroupAdmin {
    private GroupAdmin() {
    }

    static void run(Args args) throws Exception {
        AdminSteps steps = new AdminSteps(args, "group-admin");
        DefaultMQAdminExt admin = steps.admin;
        String broker = args.need("broker");
        String topic = args.need("topic");
        String group = args.need("group");
        for (String step : args.list("steps")) {
            // A step may have a value: name=value.
            String name = step.split("=")[0];
            String value = step.contains("=") ? step.substring(step.indexOf('=') + 1) : "";
            steps.step(name, () -> {
                switch (name) {
                    case "connection":
                        return connection(admin.examineConsumerConnectionInfo(group));
                    case "producers":
                        return clients(admin.examineProducerConnectionInfo("CLIENT_INNER_PRODUCER", topic).getConnectionSet());
                    case "allProducers":
                        ProducerTableInfo table = admin.getAllProducerInfo(broker);
                        return new TreeSet<>(table.getData().keySet());
                    case "running":
                        return running(admin.getConsumerRunningInfo(group, clientId(admin, group), true));
                    case "status":
                        return status(admin.getConsumeStatus(topic, group, value));
                    case "direct":
                        ConsumeMessageDirectlyResult result = admin.consumeMessageDirectly(group, clientId(admin, group), topic, value);
                        return String.valueOf(result.getConsumeResult());
                    case "reset":
                        return queues(admin.resetOffsetByTimestamp(topic, group, Long.parseLong(value), true));
                    case "resetOne":
                        admin.resetOffsetByQueueId(broker, group, topic, 0, Long.parseLong(value));
                        return true;
                    case "clone":
                        admin.cloneGroupOffset(group, value, topic, true);
                        return true;
                    case "lag":
                        return lag(admin.examineConsumeStats(value.isEmpty() ? group : value, topic));
                    case "span":
                        Map<String, Object> spans = new TreeMap<>();
                        for (QueueTimeSpan span : admin.queryConsumeTimeSpan(topic, group)) {
                            spans.put(String.valueOf(span.getMessageQueue().getQueueId()), span.getDelayTime());
                        }
                        return spans;
                    case "topicsOf":
                        return new TreeSet<>(admin.queryTopicsByConsumer(group).getTopicList());
                    case "subscription":
                        return admin.querySubscription(group, topic).getSubString();
                    case "config":
                        java.util.Properties properties = new java.util.Properties();
                        properties.setProperty(value.split(":")[0], value.split(":")[1]);
                        admin.updateBrokerConfig(broker, properties);
                        return true;
                    default:
                        throw new IllegalArgumentException("step " + name);
                }
            });
        }
        steps.end();
    }

    private static String clientId(DefaultMQAdminExt admin, String group) throws Exception {
        return admin.examineConsumerConnectionInfo(group).getConnectionSet().iterator().next().getClientId();
    }

    private static Object connection(ConsumerConnection connection) {
        return Out.row("clients", clients(connection.getConnectionSet()), "type", String.valueOf(connection.getConsumeType()),
            "model", String.valueOf(connection.getMessageModel()), "from", String.valueOf(connection.getConsumeFromWhere()),
            "topics", new TreeSet<>(connection.getSubscriptionTable().keySet()));
    }

    private static Object clients(Iterable<Connection> connections) {
        Map<String, Object> table = new TreeMap<>();
        for (Connection one : connections) {
            table.put(one.getClientId().replaceAll("^.*@", ""), one.getLanguage() + " " + one.getVersion());
        }
        return table;
    }

    private static Object running(ConsumerRunningInfo info) {
        return Out.row("queues", info.getMqTable().size(), "stack", info.getJstack() == null ? 0 : info.getJstack().length(),
            "subscriptions", info.getSubscriptionSet().size(), "type", info.getProperties().getProperty("PROP_CONSUME_TYPE"));
    }

    private static Object status(Map<String, Map<MessageQueue, Long>> table) {
        Map<String, Object> clients = new TreeMap<>();
        table.forEach((id, offsets) -> clients.put(id.replaceAll("^.*@", ""), queues(offsets)));
        return clients;
    }

    private static Map<String, Object> queues(Map<MessageQueue, Long> offsets) {
        Map<String, Object> table = new TreeMap<>();
        offsets.forEach((queue, offset) -> table.put(String.valueOf(queue.getQueueId()), offset));
        return table;
    }

    private static Object lag(ConsumeStats stats) {
        Map<String, Object> table = new TreeMap<>();
        stats.getOffsetTable().forEach((queue, offsets) -> {
            if (queue.getTopic().startsWith("%RETRY%")) {
                return;
            }
            table.put(String.valueOf(queue.getQueueId()), offsets.getBrokerOffset() - offsets.getConsumerOffset());
        });
        return table;
    }
}
