package gantry.interop;

import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONWriter;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;

/** Standard output as JSON lines. 64-bit numbers are printed as text, because a reader in JavaScript would round them. */
final class Out {
    private static final PrintStream STREAM = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    private Out() {
    }

    static void line(Map<String, ?> row) {
        String text = JSON.toJSONString(row, JSONWriter.Feature.WriteMapNullValue);
        synchronized (STREAM) {
            STREAM.println(text);
            STREAM.flush();
        }
    }

    /** A row from alternating names and values. */
    static Map<String, Object> row(Object... pairs) {
        Map<String, Object> row = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            row.put((String) pairs[i], pairs[i + 1]);
        }
        return row;
    }

    static Map<String, Object> sent(int index, SendResult result) {
        Map<String, Object> row = row("sent", index, "status", result.getSendStatus().name(), "msgId", result.getMsgId(),
            "offsetMsgId", result.getOffsetMsgId(), "topic", result.getMessageQueue().getTopic(),
            "brokerName", result.getMessageQueue().getBrokerName(), "queueId", result.getMessageQueue().getQueueId(),
            "queueOffset", result.getQueueOffset());
        if (result.getRecallHandle() != null) {
            row.put("recallHandle", result.getRecallHandle());
        }
        return row;
    }

    /** Everything of a message that a store keeps; what the client adds on receipt is left out of the properties. */
    static Map<String, Object> message(MessageExt m) {
        Map<String, String> properties = new TreeMap<>(m.getProperties());
        properties.remove(MessageConst.PROPERTY_MIN_OFFSET);
        properties.remove(MessageConst.PROPERTY_MAX_OFFSET);
        properties.remove(MessageConst.PROPERTY_CONSUME_START_TIMESTAMP);
        String offsetMsgId = m instanceof MessageClientExt ? ((MessageClientExt) m).getOffsetMsgId() : m.getMsgId();
        return row("topic", m.getTopic(), "queueId", m.getQueueId(), "queueOffset", m.getQueueOffset(),
            "physicalOffset", m.getCommitLogOffset(), "storeSize", m.getStoreSize(), "offsetMsgId", offsetMsgId,
            "uniqKey", m.getProperty(MessageConst.PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX), "bodyCRC", m.getBodyCRC(),
            "bodyLength", m.getBody().length, "bodySha256", sha256(m.getBody()), "sysFlag", m.getSysFlag(),
            "flag", m.getFlag(), "bornTimestamp", String.valueOf(m.getBornTimestamp()),
            "storeTimestamp", String.valueOf(m.getStoreTimestamp()), "bornHost", String.valueOf(m.getBornHost()),
            "storeHost", String.valueOf(m.getStoreHost()), "reconsumeTimes", m.getReconsumeTimes(),
            "preparedTransactionOffset", m.getPreparedTransactionOffset(), "properties", properties);
    }

    static String sha256(byte[] bytes) {
        try {
            StringBuilder hex = new StringBuilder();
            for (byte b : MessageDigest.getInstance("SHA-256").digest(bytes)) {
                hex.append(String.format("%02x", b));
            }
            return hex.toString();
        } catch (java.security.NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }
}
