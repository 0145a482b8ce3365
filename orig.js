// A due message is stored in its real topic, or once more in the timer's if it goes round. RocketMQ: TimerMessageStore#convert, #doPut.
import { PropertyName } from '../../message/index.js';
import { PutMessageStatus, PutResult, putStatusName } from '../../store/index.js';
import { copyOf, toPutRequest } from '../internal-put.js';
import { isNotAllowedSendTopic, TIMER_TOPIC, topicNameFault } from '../topic/topic-names.js';
/** Instead of the end of a record: the message is left out; it must be tried again. */
export const DROPPED = 0;
export const RETRY = -1;
const NUMBER = /^-?\d{1,15}$/;
export class TimerDelivery {
    #state;
    constructor(state) {
        this.#state = state;
    }
    /** Where the record that was written ends in the CommitLog; else DROPPED or RETRY. */
    deliver(message, enqueueMs, roll) {
        const state = this.#state;
        const copy = copyOf(message);
        const { properties } = copy;
        properties.set(PropertyName.TIMER_ENQUEUE_MS, enqueueMs);
        if (roll) {
            const times = properties.get(PropertyName.TIMER_ROLL_TIMES);
            properties.set(PropertyName.TIMER_ROLL_TIMES, String((times !== undefined && NUMBER.test(times) ? Number(times) : 0) + 1));
        }
        properties.set(PropertyName.TIMER_DEQUEUE_MS, String(state.clock.now()));
        copy.preparedTransactionOffset = 0;
        copy.waitStoreMsgOK = false;
        if (!roll) {
            const topic = properties.get(PropertyName.REAL_TOPIC);
            const queueId = properties.get(PropertyName.REAL_QID) ?? '';
            if (topic === TIMER_TOPIC ||
                isNotAllowedSendTopic(topic) ||
                topicNameFault(topic) ||
                !/^\d{1,9}$/.test(queueId)) {
                state.setAside(message, `its real topic is ${topic}, queue ${queueId}`);
                return DROPPED;
            }
            // The stored text keeps REAL_TOPIC and REAL_QID, as RocketMQ's does.
            copy.topic = topic;
            copy.queueId = Number(queueId);
        }
        const result = new PutResult();
        state.store.put(toPutRequest(copy, state.storeHost), result);
        switch (result.status) {
            case PutMessageStatus.PUT_OK:
                state.changed = true;
                if (roll)
                    state.figures.rolled++;
                else
                    state.figures.delivered++;
                return result.wroteOffset + result.wroteBytes;
            case PutMessageStatus.MESSAGE_ILLEGAL:
            case PutMessageStatus.PROPERTIES_SIZE_EXCEEDED:
                state.setAside(message, `${copy.topic} cannot take it: ${result.reason}`);
                return DROPPED;
            case PutMessageStatus.UNKNOWN_ERROR:
                if (!state.config.timerSkipUnknownError)
                    return RETRY;
                state.setAside(message, result.reason);
                return DROPPED;
            default:
                state.seldom.warn('put', `timer messages wait: ${putStatusName(result.status)} ${result.reason}`);
                return RETRY;
        }
    }
    /** The first of some deliveries, by where they end in the CommitLog, that could not be written; -1 when all are. */
    async firstLost(ends) {
        const { store, seldom } = this.#state;
        const end = ends.reduce((a, b) => Math.max(a, b), 0);
        if (end === 0)
            return -1;
        const [status, reason] = await new Promise((resolve) => store.whenDurable(end, false, (...outcome) => resolve(outcome)));
        if (status === PutMessageStatus.PUT_OK)
            return -1;
        seldom.warn('lost', `timer messages that were due are not written and are delivered again: ${reason}`);
        const { committed } = store.watermarks;
        return ends.findIndex((one) => one > committed);
    }
}
//# sourceMappingURL=timer-delivery.js.map