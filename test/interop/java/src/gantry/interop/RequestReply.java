package gantry.interop;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** A consumer that replies to every message, and a producer that asks it: synchronously, with a callback, and in vain. */
final class RequestReply {
    private RequestReply() {
    }

    static void run(Args args) throws Exception {
        String topic = args.need("topic");
        int count = args.number("count", 3);
        DefaultMQProducer replier = Produce.producer(args);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args.need("group"));
        consumer.setNamesrvAddr(args.need("namesrv"));
        consumer.setInstanceName("replier");
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPollNameServerInterval(1000);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (batch, context) -> {
            for (MessageExt message : batch) {
                if (message.getProperty("CORRELATION_ID") == null || "silent".equals(message.getTags())) {
                    continue;
                }
                try {
                    String body = "re:" + new String(message.getBody(), StandardCharsets.UTF_8);
                    Message reply = MessageUtil.createReplyMessage(message, body.getBytes(StandardCharsets.UTF_8));
                    Out.line(Out.row("replied", message.getProperty("index"), "status", replier.send(reply, 3000).getSendStatus()));
                } catch (Exception e) {
                    Out.line(Out.row("replyFailed", message.getProperty("index"), "reason", String.valueOf(e)));
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        DefaultMQProducer asker = new DefaultMQProducer("interop-asker");
        asker.setNamesrvAddr(args.need("namesrv"));
        asker.setInstanceName("asker");
        asker.setPollNameServerInterval(1000);
        asker.start();
        // The topic, before anyone subscribes to it.
        asker.send(message(topic, "first", "silent", -1), 15_000);
        consumer.start();
        for (int i = 0; i < count; i++) {
            Out.line(answer("sync", i, asker.request(message(topic, "sync" + i, "", i), 20_000)));
        }
        CountDownLatch open = new CountDownLatch(count);
        for (int i = 0; i < count; i++) {
            int index = i;
            asker.request(message(topic, "async" + i, "", i), new RequestCallback() {
                @Override
                public void onSuccess(Message message) {
                    Out.line(answer("async", index, message));
                    open.countDown();
                }

                @Override
                public void onException(Throwable e) {
                    Out.line(Out.row("failed", index, "reason", String.valueOf(e)));
                    open.countDown();
                }
            }, 20_000);
        }
        Out.line(Out.row("allCallbacks", open.await(30, TimeUnit.SECONDS)));
        try {
            asker.request(message(topic, "nobody", "silent", 0), 2_000);
            Out.line(Out.row("silent", "an answer"));
        } catch (Exception e) {
            Out.line(Out.row("silent", e.getClass().getSimpleName()));
        }
        consumer.shutdown();
        asker.shutdown();
        replier.shutdown();
        Out.line(Out.row("done", true));
    }

    private static Message message(String topic, String body, String tag, int index) {
        Message message = new Message(topic, tag, body.getBytes(StandardCharsets.UTF_8));
        message.putUserProperty("index", String.valueOf(index));
        return message;
    }

    private static Map<String, Object> answer(String mode, int index, Message reply) {
        return Out.row("answer", mode, "index", index, "body", new String(reply.getBody(), StandardCharsets.UTF_8),
            "type", reply.getProperty("MSG_TYPE"), "pushed", reply.getProperty("PUSH_REPLY_TIME") != null);
    }
}
