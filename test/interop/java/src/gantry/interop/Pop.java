package gantry.interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.AckCallback;
import org.apache.rocketmq.client.consumer.AckResult;
import org.apache.rocketmq.client.consumer.PopCallback;
import org.apache.rocketmq.client.consumer.PopResult;
import org.apache.rocketmq.client.consumer.PopStatus;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.client.impl.MQClientManager;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.exception.RemotingConnectException;
import org.apache.rocketmq.remoting.protocol.header.AckMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ChangeInvisibleTimeRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ExtraInfoUtil;
import org.apache.rocketmq.remoting.protocol.header.PopMessageRequestHeader;

/**
 * Pops from one broker, a line of standard input each time, until that ends:
 * {@code pop TOPIC GROUP MAX INVISIBLE-MS WAIT-MS WANTED [ORDER-ATTEMPT]} pops until so many messages have come or it has waited so long;
 * {@code ack TOPIC GROUP INDEXES}, {@code batch-ack TOPIC GROUP INDEXES} and {@code change TOPIC GROUP INDEXES MS} concern what was popped last
 * under these indexes. Each line is answered by the rows of messages and one with {@code step}.
 */
final class Pop {
    private static final long TIMEOUT_MS = 5000;

    private final String addr;
    private final String brokerName;
    private final MQClientAPIImpl api;
    private final Map<String, MessageExt> popped = new HashMap<>();

    private Pop(Args args) throws Exception {
        this.addr = args.need("addr");
        this.brokerName = args.need("broker-name");
        ClientConfig config = new ClientConfig();
        config.setNamesrvAddr(args.need("namesrv"));
        config.setInstanceName("pop");
        MQClientInstance instance = MQClientManager.getInstance().getOrCreateMQClientInstance(config);
        instance.start();
        this.api = instance.getMQClientAPIImpl();
    }

    static void run(Args args) throws Exception {
        Pop pop = new Pop(args);
        Out.line(Out.row("started", true));
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            Map<String, Object> row;
            try {
                row = pop.patientStep(words);
            } catch (Exception e) {
                row = Out.row("failed", String.valueOf(e));
            }
            row.put("step", words[0]);
            Out.line(row);
        }
        Out.line(Out.row("done", true));
    }

    /** A broker that starts again does not listen yet. */
    private Map<String, Object> patientStep(String[] words) throws Exception {
        for (int tries = 0; ; tries++) {
            try {
                return step(words);
            } catch (Exception e) {
                boolean isRefused = e instanceof RemotingConnectException || e.getCause() instanceof RemotingConnectException;
                if (!isRefused || tries == 100) {
                    throw e;
                }
                Thread.sleep(100);
            }
        }
    }

    private Map<String, Object> step(String[] words) throws Exception {
        String topic = words[1];
        String group = words[2];
        List<String> results = new ArrayList<>();
        switch (words[0]) {
            case "pop":
                return pop(topic, group, words);
            case "batch-ack":
                List<String> handles = new ArrayList<>();
                for (String index : words[3].split(",")) {
                    handles.add(handle(topic, group, index));
                }
                AckResponse batch = new AckResponse();
                api.batchAckMessageAsync(addr, TIMEOUT_MS, batch, topic, group, handles);
                results.add(batch.status());
                break;
            case "ack":
                for (String index : words[3].split(",")) {
                    AckResponse response = new AckResponse();
                    api.ackMessageAsync(addr, TIMEOUT_MS, response, ackHeader(topic, group, handle(topic, group, index)));
                    results.add(response.status());
                }
                break;
            default:
                for (String index : words[3].split(",")) {
                    AckResponse response = new AckResponse();
                    change(topic, group, index, Long.parseLong(words[4]), response);
                    results.add(response.status());
                }
        }
        return Out.row("results", results);
    }

    private Map<String, Object> pop(String topic, String group, String[] words) throws Exception {
        long until = System.currentTimeMillis() + Long.parseLong(words[5]);
        int wanted = Integer.parseInt(words[6]);
        int got = 0;
        PopStatus status = PopStatus.NO_NEW_MSG;
        do {
            long left = Math.max(0, until - System.currentTimeMillis());
            PopMessageRequestHeader header = new PopMessageRequestHeader();
            header.setConsumerGroup(group);
            header.setTopic(topic);
            header.setQueueId(-1);
            header.setMaxMsgNums(Math.min(Integer.parseInt(words[3]), wanted - got));
            header.setInvisibleTime(Long.parseLong(words[4]));
            header.setPollTime(left);
            header.setBornTime(System.currentTimeMillis());
            header.setInitMode(0);
            header.setExpType("TAG");
            header.setExp("*");
            header.setOrder(words.length > 7);
            if (words.length > 7) {
                header.setAttemptId(words[7]);
            }
            CompletableFuture<PopResult> future = new CompletableFuture<>();
            api.popMessageAsync(brokerName, addr, header, left + TIMEOUT_MS, new PopCallback() {
                @Override
                public void onSuccess(PopResult result) {
                    future.complete(result);
                }

                @Override
                public void onException(Throwable e) {
                    future.completeExceptionally(e);
                }
            });
            PopResult result = future.get(left + 2 * TIMEOUT_MS, TimeUnit.MILLISECONDS);
            status = result.getPopStatus();
            if (status != PopStatus.FOUND) {
                continue;
            }
            for (MessageExt message : result.getMsgFoundList()) {
                got++;
                popped.put(group + topic + message.getUserProperty("index"), message);
                Map<String, Object> row = Out.message(message);
                row.put("received", true);
                Out.line(row);
            }
        } while (got < wanted && System.currentTimeMillis() < until);
        return Out.row("status", status.name(), "popped", got);
    }

    private String handle(String topic, String group, String index) {
        return popped.get(group + topic + index).getProperty(MessageConst.PROPERTY_POP_CK);
    }

    private AckMessageRequestHeader ackHeader(String topic, String group, String handle) {
        String[] parts = ExtraInfoUtil.split(handle);
        AckMessageRequestHeader header = new AckMessageRequestHeader();
        header.setTopic(ExtraInfoUtil.getRealTopic(parts, topic, group));
        header.setConsumerGroup(group);
        header.setQueueId(ExtraInfoUtil.getQueueId(parts));
        header.setOffset(ExtraInfoUtil.getQueueOffset(parts));
        header.setExtraInfo(handle);
        header.setBrokerName(brokerName);
        return header;
    }

    private void change(String topic, String group, String index, long ms, AckResponse response) throws Exception {
        String handle = handle(topic, group, index);
        AckMessageRequestHeader ack = ackHeader(topic, group, handle);
        ChangeInvisibleTimeRequestHeader header = new ChangeInvisibleTimeRequestHeader();
        header.setTopic(ack.getTopic());
        header.setConsumerGroup(group);
        header.setQueueId(ack.getQueueId());
        header.setOffset(ack.getOffset());
        header.setExtraInfo(handle);
        header.setInvisibleTime(ms);
        header.setBrokerName(brokerName);
        api.changeInvisibleTimeAsync(brokerName, addr, header, TIMEOUT_MS, response);
        AckResult result = response.get(TIMEOUT_MS, TimeUnit.MILLISECONDS);
        if (result.getExtraInfo() != null) {
            popped.get(group + topic + index).getProperties().put(MessageConst.PROPERTY_POP_CK, result.getExtraInfo());
        }
    }

    /** What the broker said to an acknowledgement. */
    private static final class AckResponse extends CompletableFuture<AckResult> implements AckCallback {
        @Override
        public void onSuccess(AckResult result) {
            complete(result);
        }

        @Override
        public void onException(Throwable e) {
            completeExceptionally(e);
        }

        String status() throws Exception {
            return get(TIMEOUT_MS, TimeUnit.MILLISECONDS).getStatus().name();
        }
    }
}
