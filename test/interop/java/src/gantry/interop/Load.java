package gantry.interop;

import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.SendResult;

/**
 * Sends from {@code --threads} threads until a send fails, which is what a killed broker makes of it, or until
 * {@code --count} messages; a line for each message that was acknowledged, none for the others.
 */
final class Load {
    private Load() {
    }

    static void run(Args args) throws Exception {
        DefaultMQProducer producer = Produce.producer(args);
        producer.setRetryTimesWhenSendFailed(0);
        producer.setSendMsgTimeout(10_000);
        Messages messages = new Messages(args);
        int count = args.number("count", Integer.MAX_VALUE);
        AtomicInteger next = new AtomicInteger();
        Thread[] threads = new Thread[args.number("threads", 8)];
        for (int t = 0; t < threads.length; t++) {
            threads[t] = new Thread(() -> {
                for (int i = next.getAndIncrement(); i < count; i = next.getAndIncrement()) {
                    try {
                        SendResult result = producer.send(messages.make(i));
                        if (result.getSendStatus() == SendStatus.SEND_OK) {
                            Out.line(Out.sent(i, result));
                        }
                    } catch (Exception e) {
                        return;
                    }
                }
            });
            threads[t].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        Out.line(Out.row("done", true));
    }
}
