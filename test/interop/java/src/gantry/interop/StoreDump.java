package gantry.interop;

import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.SelectMappedBufferResult;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.queue.ConsumeQueueInterface;
import org.apache.rocketmq.store.queue.CqUnit;
import org.apache.rocketmq.store.queue.ReferredIterator;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/**
 * Opens the store directory of {@code --conf} with RocketMQ's own store, no broker around it, lets it recover and
 * dispatch, and prints every ConsumeQueue unit with the record that it points to. The directory is
 * changed by that, and left as after a kill.
 */
final class StoreDump {
    private StoreDump() {
    }

    static void run(Args args) throws Exception {
        Properties properties = new Properties();
        try (InputStream in = Files.newInputStream(Paths.get(args.need("conf")))) {
            properties.load(in);
        }
        BrokerConfig brokerConfig = new BrokerConfig();
        MessageStoreConfig storeConfig = new MessageStoreConfig();
        MixAll.properties2Object(properties, brokerConfig);
        MixAll.properties2Object(properties, storeConfig);
        DefaultMessageStore store = new DefaultMessageStore(storeConfig, new BrokerStatsManager(brokerConfig),
            (topic, queueId, logicOffset, tagsCode, time, bitMap, props) -> { }, brokerConfig, new ConcurrentHashMap<>());
        boolean loaded = store.load();
        Out.line(Out.row("loaded", loaded, "min", store.getMinPhyOffset(), "max", store.getMaxPhyOffset()));
        if (!loaded) {
            return;
        }
        store.start();
        for (int i = 0; i < 600 && store.dispatchBehindBytes() > 0; i++) {
            Thread.sleep(50);
        }
        Out.line(Out.row("dispatched", store.dispatchBehindBytes() == 0, "confirm", store.getConfirmOffset()));
        for (Map.Entry<String, ConcurrentMap<Integer, ConsumeQueueInterface>> topic : new TreeMap<>(store.getConsumeQueueTable()).entrySet()) {
            for (Map.Entry<Integer, ConsumeQueueInterface> queue : new TreeMap<>(topic.getValue()).entrySet()) {
                dump(store, queue.getValue());
            }
        }
        Out.line(Out.row("done", true));
    }

    /** The record of a unit, its body decompressed as a client would, or null. */
    private static MessageExt read(DefaultMessageStore store, CqUnit unit) {
        SelectMappedBufferResult bytes = store.getCommitLog().getMessage(unit.getPos(), unit.getSize());
        if (bytes == null) {
            return null;
        }
        try {
            return MessageDecoder.clientDecode(bytes.getByteBuffer(), true);
        } finally {
            bytes.release();
        }
    }

    private static void dump(DefaultMessageStore store, ConsumeQueueInterface queue) throws Exception {
        long min = queue.getMinOffsetInQueue();
        long max = queue.getMaxOffsetInQueue();
        ReferredIterator<CqUnit> units = max > min ? queue.iterateFrom(min) : null;
        long expected = min;
        while (expected < max) {
            if (units == null || !units.hasNext()) {
                if (units != null) {
                    units.release();
                }
                // An iterator ends with its file.
                units = queue.iterateFrom(expected);
                if (units == null || !units.hasNext()) {
                    throw new IllegalStateException(queue.getTopic() + ":" + queue.getQueueId() + " has no unit " + expected);
                }
            }
            CqUnit unit = units.next();
            MessageExt message = read(store, unit);
            Map<String, Object> row = message == null
                ? Out.row("topic", queue.getTopic(), "queueId", queue.getQueueId(), "queueOffset", unit.getQueueOffset(), "unreadable", unit.getPos())
                : Out.message(message);
            row.put("received", true);
            row.put("unit", unit.getQueueOffset() + " " + unit.getPos() + " " + unit.getSize() + " " + unit.getTagsCode());
            Out.line(row);
            expected = unit.getQueueOffset() + 1;
        }
        if (units != null) {
            units.release();
        }
        Out.line(Out.row("queue", queue.getTopic() + ":" + queue.getQueueId(), "min", min, "max", max));
    }
}
