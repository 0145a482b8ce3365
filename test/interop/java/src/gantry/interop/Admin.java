package gantry.interop;

import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.admin.TopicOffset;
import org.apache.rocketmq.remoting.protocol.body.ClusterInfo;
import org.apache.rocketmq.remoting.protocol.route.QueueData;
import org.apache.rocketmq.remoting.protocol.route.TopicRouteData;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Calls of the admin client that concern topics, messages and brokers, one a step. */
final class Admin {
    private Admin() {
    }

    static void run(Args args) throws Exception {
        AdminSteps steps = new AdminSteps(args, "admin");
        DefaultMQAdminExt admin = steps.admin;
        String broker = args.need("broker");
        String topic = args.need("topic");
        int queues = args.number("queues", 3);
        for (String step : args.list("steps")) {
            switch (step) {
                case "createTopic":
                    steps.step(step, () -> {
                        admin.createAndUpdateTopicConfig(broker, new TopicConfig(topic, queues, queues, 6));
                        return true;
                    });
                    break;
                case "topicConfig":
                    steps.step(step, () -> {
                        TopicConfig config = admin.examineTopicConfig(broker, topic);
                        return Out.row("read", config.getReadQueueNums(), "write", config.getWriteQueueNums(), "perm", config.getPerm());
                    });
                    break;
                case "route":
                    steps.step(step, () -> route(admin.examineTopicRouteInfo(topic)));
                    break;
                case "cluster":
                    steps.step(step, () -> cluster(admin.examineBrokerClusterInfo()));
                    break;
                case "topics":
                    steps.step(step, () -> new TreeSet<>(admin.fetchAllTopicList().getTopicList()));
                    break;
                case "byId":
                    steps.step(step, () -> Out.message(admin.viewMessage(topic, args.need("id"))));
                    break;
                case "byUniqKey":
                    steps.step(step, () -> Out.message(admin.viewMessage(topic, args.need("uniq-key"))));
                    break;
                case "byKey":
                    steps.step(step, () -> {
                        QueryResult result = admin.queryMessage(topic, args.need("key"), 64, 0, Long.MAX_VALUE);
                        Map<String, Object> found = new TreeMap<>();
                        for (MessageExt message : result.getMessageList()) {
                            found.put(message.getProperty("index"), message.getQueueId() + ":" + message.getQueueOffset());
                        }
                        return found;
                    });
                    break;
                case "topicStats":
                    steps.step(step, () -> {
                        Map<String, Object> table = new TreeMap<>();
                        for (Map.Entry<MessageQueue, TopicOffset> e : admin.examineTopicStats(topic).getOffsetTable().entrySet()) {
                            table.put(String.valueOf(e.getKey().getQueueId()), e.getValue().getMinOffset() + "-" + e.getValue().getMaxOffset());
                        }
                        return table;
                    });
                    break;
                case "runtime":
                    steps.step(step, () -> admin.fetchBrokerRuntimeStats(broker).getTable());
                    break;
                case "brokerConfig":
                    steps.step(step, () -> admin.getBrokerConfig(broker));
                    break;
                case "connection":
                    steps.step(step, () -> admin.examineConsumerConnectionInfo(args.need("group")).getConnectionSet().size());
                    break;
                case "groupTopics":
                    steps.step(step, () -> admin.queryTopicConsumeByWho(topic).getGroupList());
                    break;
                default:
                    throw new IllegalArgumentException("step " + step);
            }
        }
        steps.end();
    }

    private static Object route(TopicRouteData route) {
        Map<String, Object> brokers = new TreeMap<>();
        for (QueueData queue : route.getQueueDatas()) {
            brokers.put(queue.getBrokerName(), Out.row("read", queue.getReadQueueNums(), "write", queue.getWriteQueueNums(), "perm", queue.getPerm()));
        }
        Map<String, Object> addresses = new TreeMap<>();
        route.getBrokerDatas().forEach(data -> addresses.put(data.getBrokerName(), data.getBrokerAddrs().get(0L)));
        return Out.row("queues", brokers, "addresses", addresses);
    }

    private static Object cluster(ClusterInfo info) {
        Map<String, Object> clusters = new TreeMap<>();
        info.getClusterAddrTable().forEach((name, brokers) -> clusters.put(name, new TreeSet<>(brokers)));
        Map<String, Object> addresses = new TreeMap<>();
        info.getBrokerAddrTable().forEach((name, data) -> addresses.put(name, data.getBrokerAddrs().get(0L)));
        return Out.row("clusters", clusters, "addresses", addresses);
    }
}
