package gantry.interop;

import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageConst;

/** The messages that a producer run sends, each a function of its index, so that a reader can tell what is missing. */
final class Messages {
    private final String topic;
    private final String[] tags;
    private final boolean keys;
    private final int keyCount;
    private final boolean unicode;
    private final int size;
    private final String prefix;
    private final String[] lightQueues;
    private final int priorities;

    Messages(Args args) {
        topic = args.need("topic");
        tags = args.list("tags");
        keys = args.flag("keys");
        keyCount = args.number("key-count", 0);
        unicode = args.flag("unicode");
        size = args.number("size", 64);
        prefix = args.text("prefix", "m");
        lightQueues = args.text("multi-dispatch", "").split(";");
        priorities = args.number("priorities", 0);
    }

    Message make(int index) {
        StringBuilder body = new StringBuilder(prefix).append('-').append(index).append(' ');
        if (unicode) {
            body.append("Größe 大小 размер 😀 ");
        }
        while (body.length() < size) {
            body.append((char) ('a' + (index + body.length()) % 26));
        }
        Message message = new Message(topic, body.toString().getBytes(StandardCharsets.UTF_8));
        if (tags.length > 0) {
            message.setTags(tags[index % tags.length]);
        }
        if (keys) {
            message.setKeys(prefix + "-key-" + index + " " + prefix + "-all");
        }
        if (keyCount > 0) {
            message.setKeys("key-" + index % keyCount);
        }
        if (unicode) {
            message.putUserProperty("name", "Ünïcödé 名前 " + index);
        }
        String light = lightQueues[index % lightQueues.length];
        if (!light.isEmpty()) {
            message.putUserProperty("INNER_MULTI_DISPATCH", light);
        }
        if (priorities > 0) {
            message.setPriority(index % priorities);
        }
        message.putUserProperty("index", String.valueOf(index));
        message.setFlag(index % 7);
        return message;
    }

    /** The id that the client gave a message, which a batch keeps for each of its members. */
    static String uniqKey(Message message) {
        return message.getProperty(MessageConst.PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX);
    }
}
