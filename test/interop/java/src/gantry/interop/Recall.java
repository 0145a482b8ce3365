package gantry.interop;

import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;

/** Cancels the messages of {@code --handles}; one line each, with what the broker said. */
final class Recall {
    private Recall() {
    }

    static void run(Args args) throws Exception {
        DefaultMQProducer producer = Produce.producer(args);
        for (String handle : args.list("handles")) {
            try {
                Out.line(Out.row("recalled", producer.recallMessage(args.need("topic"), handle)));
            } catch (MQBrokerException e) {
                Out.line(Out.row("refused", e.getResponseCode(), "remark", e.getErrorMessage()));
            }
        }
        producer.shutdown();
        Out.line(Out.row("done", true));
    }
}
