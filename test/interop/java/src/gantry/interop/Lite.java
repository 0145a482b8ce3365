package gantry.interop;

import com.google.common.hash.Hashing;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.AckCallback;
import org.apache.rocketmq.client.consumer.AckResult;
import org.apache.rocketmq.client.consumer.PopCallback;
import org.apache.rocketmq.client.consumer.PopResult;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.MessageQueueSelector;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.lite.LiteSubscriptionAction;
import org.apache.rocketmq.common.lite.LiteSubscriptionDTO;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.netty.NettyRequestProcessor;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.body.LiteSubscriptionCtlRequestBody;
import org.apache.rocketmq.remoting.protocol.header.AckMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ChangeInvisibleTimeRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.LiteSubscriptionCtlRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.NotifyUnsubscribeLiteRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.PopLiteMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;

/**
 * Lite topics by the calls that RocketMQ's proxy makes, one a step; {@code --steps} has them with semicolons, their values with spaces:
 *
 * <pre>
 * topic NAME +ATTRIBUTES   group NAME +ATTRIBUTES   send LITE BODY...   pop CLIENT COUNT INVISIBLE POLL   ack all|none|BODY...
 * use GROUP                change BODY TIME         ctl ACTION CLIENT LITE...   mqadmin COMMAND ARGUMENTS...
 * on BROKER NAME           spread LITE BODY...      sendto NAME LITE BODY...
 * </pre>
 *
 * {@code spread} sends as the proxy does: to the write queue that the hash of the lite topic's name chooses.
 */
final class Lite {
    private final Args args;
    private String broker;
    private String brokerName = "lite-broker";
    private final String topic;
    private String group;
    private final DefaultMQProducer producer;
    private final AdminSteps admin;
    private final MQClientAPIImpl api;
    /** What was popped and not acknowledged, by body. */
    private final Map<String, MessageExt> out = new LinkedHashMap<>();

    private Lite(Args args) throws Exception {
        this.args = args;
        broker = args.need("broker");
        topic = args.text("topic", "LiteParent");
        group = args.text("group", "G-Lite");
        admin = new AdminSteps(args, "lite");
        producer = new DefaultMQProducer("P-Lite");
        producer.setNamesrvAddr(args.need("namesrv"));
        producer.setInstanceName("lite");
        producer.setRetryTimesWhenSendFailed(0);
        producer.start();
        api = producer.getDefaultMQProducerImpl().getMqClientFactory().getMQClientAPIImpl();
        api.getRemotingClient().registerProcessor(RequestCode.NOTIFY_UNSUBSCRIBE_LITE, new NettyRequestProcessor() {
            @Override
            public RemotingCommand processRequest(io.netty.channel.ChannelHandlerContext ctx, RemotingCommand request) throws Exception {
                NotifyUnsubscribeLiteRequestHeader header =
                    (NotifyUnsubscribeLiteRequestHeader) request.decodeCommandCustomHeader(NotifyUnsubscribeLiteRequestHeader.class);
                Out.line(Out.row("notified", header.getLiteTopic(), "client", header.getClientId(), "group", header.getConsumerGroup()));
                return null;
            }

            @Override
            public boolean rejectRequest() {
                return false;
            }
        }, Executors.newSingleThreadExecutor());
    }

    static void run(Args args) throws Exception {
        Lite lite = new Lite(args);
        for (String step : args.need("steps").split(";")) {
            String[] words = step.trim().split(" +");
            try {
                lite.step(words[0], Arrays.copyOfRange(words, 1, words.length));
            } catch (MQClientException e) {
                if (!(e.getCause() instanceof MQBrokerException)) {
                    throw e;
                }
                MQBrokerException refusal = (MQBrokerException) e.getCause();
                Out.line(Out.row("step", words[0], "code", refusal.getResponseCode(), "remark", refusal.getErrorMessage()));
            }
        }
        Out.line(Out.row("done", true));
    }

    private void step(String name, String[] values) throws Exception {
        switch (name) {
            case "topic":
                TopicConfig config = new TopicConfig(values[0], 4, 4);
                config.setAttributes(attributes(values));
                admin.admin.createAndUpdateTopicConfig(broker, config);
                break;
            case "group":
                SubscriptionGroupConfig subscription = new SubscriptionGroupConfig();
                subscription.setGroupName(values[0]);
                subscription.setAttributes(attributes(values));
                admin.admin.createAndUpdateSubscriptionGroupConfig(broker, subscription);
                break;
            case "send":
                send(null, values);
                break;
            case "spread":
                send((queues, message, lite) -> queues.get(Hashing.consistentHash(lite.hashCode(), queues.size())), values);
                break;
            case "sendto":
                send((queues, message, lite) -> queues.stream().filter(queue -> queue.getBrokerName().equals(values[0])).findFirst().get(),
                    Arrays.copyOfRange(values, 1, values.length));
                break;
            case "on":
                broker = values[0];
                brokerName = values[1];
                break;
            case "use":
                group = values[0];
                break;
            case "ctl":
                ctl(values);
                break;
            case "pop":
                pop(values[0], Integer.parseInt(values[1]), Long.parseLong(values[2]), Long.parseLong(values[3]));
                break;
            case "ack":
                ack(values);
                break;
            case "change":
                change(values[0], Long.parseLong(values[1]));
                break;
            case "mqadmin":
                mqadmin(values);
                break;
            default:
                throw new IllegalArgumentException("step " + name);
        }
    }

    private void send(MessageQueueSelector selector, String[] values) throws Exception {
        for (int i = 1; i < values.length; i++) {
            Message message = new Message(topic, values[i].getBytes(StandardCharsets.UTF_8));
            MessageAccessor.putProperty(message, MessageConst.PROPERTY_LITE_TOPIC, values[0]);
            SendResult result = selector == null ? producer.send(message) : producer.send(message, selector, values[0]);
            Out.line(Out.row("sent", values[i], "lite", values[0], "status", result.getSendStatus().name(),
                "broker", result.getMessageQueue().getBrokerName()));
        }
    }

    private static Map<String, String> attributes(String[] values) {
        Map<String, String> attributes = new LinkedHashMap<>();
        for (int i = 1; i < values.length; i++) {
            attributes.put(values[i].split("=")[0], values[i].substring(values[i].indexOf('=') + 1));
        }
        return attributes;
    }

    private void ctl(String[] values) throws Exception {
        LiteSubscriptionDTO wish = new LiteSubscriptionDTO().setAction(LiteSubscriptionAction.valueOf(values[0])).setClientId(values[1])
            .setGroup(group).setTopic(topic).setLiteTopicSet(new HashSet<>(Arrays.asList(values).subList(2, values.length)));
        LiteSubscriptionCtlRequestBody body = new LiteSubscriptionCtlRequestBody();
        body.setSubscriptionSet(Collections.singleton(wish));
        RemotingCommand request = RemotingCommand.createRequestCommand(RequestCode.LITE_SUBSCRIPTION_CTL, new LiteSubscriptionCtlRequestHeader());
        request.setBody(body.encode());
        RemotingCommand response = api.getRemotingClient().invokeSync(broker, request, 5000);
        Out.line(Out.row("ctl", values[0], "code", response.getCode(), "remark", response.getRemark()));
    }

    /** Pops until nothing comes, or there are so many. */
    private void pop(String clientId, int count, long invisible, long poll) throws Exception {
        int got = 0;
        while (got < count) {
            PopLiteMessageRequestHeader header = new PopLiteMessageRequestHeader();
            header.setClientId(clientId);
            header.setConsumerGroup(group);
            header.setTopic(topic);
            header.setMaxMsgNum(Math.min(32, count - got));
            header.setInvisibleTime(invisible);
            header.setPollTime(poll);
            header.setBornTime(System.currentTimeMillis());
            CompletableFuture<PopResult> future = new CompletableFuture<>();
            api.popLiteMessageAsync(brokerName, broker, header, poll + 10_000, new PopCallback() {
                @Override
                public void onSuccess(PopResult result) {
                    future.complete(result);
                }

                @Override
                public void onException(Throwable e) {
                    future.completeExceptionally(e);
                }
            });
            PopResult result = future.get(poll + 10_000, TimeUnit.MILLISECONDS);
            List<MessageExt> found = result.getMsgFoundList() == null ? new ArrayList<>() : result.getMsgFoundList();
            for (MessageExt message : found) {
                String body = new String(message.getBody(), StandardCharsets.UTF_8);
                out.put(body, message);
                Out.line(Out.row("popped", body, "client", clientId, "broker", brokerName, "lite", message.getProperty(MessageConst.PROPERTY_LITE_TOPIC),
                    "offset", message.getQueueOffset(), "count", message.getReconsumeTimes(),
                    "handle", message.getProperty(MessageConst.PROPERTY_POP_CK) != null));
            }
            got += found.size();
            if (found.isEmpty()) {
                break;
            }
        }
        Out.line(Out.row("pops", got, "client", clientId));
    }

    private void ack(String[] values) throws Exception {
        List<String> bodies = new ArrayList<>(values[0].equals("all") ? out.keySet() : Arrays.asList(values));
        for (String body : bodies) {
            MessageExt message = out.remove(body);
            AckMessageRequestHeader header = new AckMessageRequestHeader();
            header.setConsumerGroup(group);
            header.setTopic(topic);
            header.setQueueId(0);
            header.setExtraInfo(message.getProperty(MessageConst.PROPERTY_POP_CK));
            header.setOffset(message.getQueueOffset());
            header.setLiteTopic(message.getProperty(MessageConst.PROPERTY_LITE_TOPIC));
            Out.line(Out.row("acked", body, "status", answered(callback -> api.ackMessageAsync(broker, 5000, callback, header))));
        }
    }

    private void change(String body, long invisible) throws Exception {
        MessageExt message = out.get(body);
        ChangeInvisibleTimeRequestHeader header = new ChangeInvisibleTimeRequestHeader();
        header.setConsumerGroup(group);
        header.setTopic(topic);
        header.setQueueId(0);
        header.setExtraInfo(message.getProperty(MessageConst.PROPERTY_POP_CK));
        header.setOffset(message.getQueueOffset());
        header.setInvisibleTime(invisible);
        header.setLiteTopic(message.getProperty(MessageConst.PROPERTY_LITE_TOPIC));
        Out.line(Out.row("changed", body, "status",
            answered(callback -> api.changeInvisibleTimeAsync(brokerName, broker, header, 5000, callback))));
    }

    private interface Call {
        void with(AckCallback callback) throws Exception;
    }

    private static String answered(Call call) throws Exception {
        CompletableFuture<String> future = new CompletableFuture<>();
        call.with(new AckCallback() {
            @Override
            public void onSuccess(AckResult result) {
                future.complete(result.getStatus().name());
            }

            @Override
            public void onException(Throwable e) {
                future.complete(String.valueOf(e));
            }
        });
        return future.get(10, TimeUnit.SECONDS);
    }

    /** A command of mqadmin in this process; what it prints becomes one row. */
    private void mqadmin(String[] values) throws Exception {
        java.io.PrintStream console = System.out;
        java.io.ByteArrayOutputStream bytes = new java.io.ByteArrayOutputStream();
        List<String> words = new ArrayList<>(Arrays.asList(values));
        words.addAll(Arrays.asList("-n", args.need("namesrv")));
        System.setOut(new java.io.PrintStream(bytes, true, "UTF-8"));
        try {
            org.apache.rocketmq.tools.command.MQAdminStartup.main0(words.toArray(new String[0]), null);
        } finally {
            System.setOut(console);
        }
        Out.line(Out.row("mqadmin", values[0], "output", bytes.toString("UTF-8")));
    }
}
