package gantry.interop;

import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Sends {@code --count} transactional messages whose local transactions end as {@code --local} says, in turn (commit,rollback,unknown), then
 * answers checks with {@code --check} until standard input ends. One line a send, one a check.
 */
final class Transact {
    private Transact() {
    }

    static void run(Args args) throws Exception {
        String[] local = args.text("local", "commit").split(",");
        LocalTransactionState check = state(args.text("check", "unknown"));
        TransactionMQProducer producer = new TransactionMQProducer(args.text("group", "interop-transactions"));
        producer.setNamesrvAddr(args.need("namesrv"));
        producer.setInstanceName(args.text("instance", "transact"));
        producer.setSendMsgTimeout(15_000);
        producer.setPollNameServerInterval(1000);
        producer.setHeartbeatBrokerInterval(1000);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object arg) {
                return state(local[(Integer) arg % local.length]);
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                Out.line(Out.row("checked", Integer.parseInt(message.getProperty("index")), "topic", message.getTopic(),
                    "queueId", message.getQueueId(), "queueOffset", message.getQueueOffset(),
                    "transactionId", message.getTransactionId(),
                    "uniqKey", message.getProperty(MessageConst.PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX),
                    "times", message.getProperty(MessageConst.PROPERTY_TRANSACTION_CHECK_TIMES),
                    "bodySha256", Out.sha256(message.getBody()), "answer", check.name()));
                return check;
            }
        });
        producer.start();
        // A producer that only answers checks is known to a broker by its heartbeats, which it sends to brokers of topics that it knows.
        if (args.number("count", 0) == 0) {
            producer.getDefaultMQProducerImpl().getmQClientFactory()
                .updateTopicRouteInfoFromNameServer(args.need("topic"));
        }
        Messages messages = new Messages(args);
        int start = args.number("start", 0);
        for (int i = start; i < start + args.number("count", 0); i++) {
            Message message = messages.make(i);
            if (args.number("immunity", 0) > 0) {
                message.putUserProperty(MessageConst.PROPERTY_CHECK_IMMUNITY_TIME_IN_SECONDS, args.text("immunity", ""));
            }
            try {
                TransactionSendResult result = producer.sendMessageInTransaction(message, i);
                java.util.Map<String, Object> row = Out.sent(i, result);
                row.put("state", result.getLocalTransactionState().name());
                row.put("transactionId", result.getTransactionId());
                Out.line(row);
            } catch (Exception e) {
                Out.line(Out.row("failed", i, "reason", String.valueOf(e)));
            }
        }
        Out.line(Out.row("sentAll", true));
        while (System.in.read() >= 0) {
            continue;
        }
        producer.shutdown();
        Out.line(Out.row("done", true));
    }

    private static LocalTransactionState state(String name) {
        switch (name) {
            case "commit":
                return LocalTransactionState.COMMIT_MESSAGE;
            case "rollback":
                return LocalTransactionState.ROLLBACK_MESSAGE;
            default:
                return LocalTransactionState.UNKNOW;
        }
    }
}
