// The Go side of the interop suite: one sub-command a run, JSON lines on standard output, exit code 0 unless the
// sub-command failed. The messages are the Java side's: a function of their index.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

type options struct {
	namesrv, topic, group, mode, tags, prefix, expression, sql, model, instance, local, check string
	count, batch, delayLevel, failFirst, maxReconsume                                         int
	keys, orderly                                                                             bool
}

var stdout sync.Mutex

func line(row map[string]any) {
	text, err := json.Marshal(row)
	if err != nil {
		panic(err)
	}
	stdout.Lock()
	defer stdout.Unlock()
	fmt.Println(string(text))
}

func main() {
	rlog.SetLogLevel("error")
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "a sub-command is needed: produce, consume, transact, request-reply")
		os.Exit(2)
	}
	var o options
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	flags.StringVar(&o.namesrv, "namesrv", "", "name server `address`")
	flags.StringVar(&o.topic, "topic", "", "topic")
	flags.StringVar(&o.group, "group", "interop-go", "group")
	flags.StringVar(&o.mode, "mode", "sync", "sync, async, oneway or batch")
	flags.StringVar(&o.tags, "tags", "", "tags, with commas, in turn")
	flags.StringVar(&o.prefix, "prefix", "m", "prefix of bodies and keys")
	flags.StringVar(&o.expression, "expression", "*", "tag expression")
	flags.StringVar(&o.sql, "sql", "", "SQL92 expression, in place of the tags'")
	flags.StringVar(&o.local, "local", "commit", "commit, rollback or unknown, with commas, in turn: what a local transaction says")
	flags.StringVar(&o.check, "check", "commit", "what the answer to a check says")
	flags.StringVar(&o.model, "model", "cluster", "cluster or broadcast")
	flags.StringVar(&o.instance, "instance", "go", "instance name")
	flags.IntVar(&o.count, "count", 1, "messages")
	flags.IntVar(&o.batch, "batch", 8, "messages of a batch")
	flags.BoolVar(&o.keys, "keys", false, "add keys")
	flags.IntVar(&o.delayLevel, "delay-level", 0, "delay level of what is produced")
	flags.IntVar(&o.failFirst, "fail-first", 0, "deliveries of each message to refuse")
	flags.IntVar(&o.maxReconsume, "max-reconsume", -1, "refusals after which a message is a dead letter")
	flags.BoolVar(&o.orderly, "orderly", false, "consume in order")
	_ = flags.Parse(os.Args[2:])
	var err error
	switch os.Args[1] {
	case "produce":
		err = produce(o)
	case "consume":
		err = consume(o)
	case "transact":
		err = transact(o)
	case "request-reply":
		err = requestReply(o)
	default:
		err = fmt.Errorf("unknown sub-command %q", os.Args[1])
	}
	if err != nil {
		line(map[string]any{"error": err.Error()})
		os.Exit(1)
	}
	line(map[string]any{"done": true})
}

func (o options) message(index int) *primitive.Message {
	body := fmt.Sprintf("%s-%d Größe 大小 😀", o.prefix, index)
	m := primitive.NewMessage(o.topic, []byte(body))
	m.WithProperty("index", strconv.Itoa(index))
	if o.tags != "" {
		tags := strings.Split(o.tags, ",")
		m.WithTag(tags[index%len(tags)])
	}
	if o.delayLevel > 0 {
		m.WithDelayTimeLevel(o.delayLevel)
	}
	if o.keys {
		m.WithKeys([]string{fmt.Sprintf("%s-key-%d", o.prefix, index)})
	}
	return m
}

func sent(index int, r *primitive.SendResult) map[string]any {
	status := "SEND_OK"
	if r.Status != primitive.SendOK {
		status = fmt.Sprintf("status %d", r.Status)
	}
	return map[string]any{
		"sent": index, "status": status, "msgId": r.MsgID, "offsetMsgId": r.OffsetMsgID,
		"topic": r.MessageQueue.Topic, "brokerName": r.MessageQueue.BrokerName, "queueId": r.MessageQueue.QueueId, "queueOffset": r.QueueOffset,
	}
}

func produce(o options) error {
	p, err := rocketmq.NewProducer(
		producer.WithNameServer([]string{o.namesrv}), producer.WithGroupName(o.group), producer.WithInstanceName(o.instance),
		producer.WithRetry(2), producer.WithSendMsgTimeout(15*time.Second),
	)
	if err != nil {
		return err
	}
	if err := p.Start(); err != nil {
		return err
	}
	defer p.Shutdown()
	ctx := context.Background()
	switch o.mode {
	case "sync":
		for n := 0; n < o.count; n++ {
			i := n
			r, err := p.SendSync(ctx, o.message(i))
			if err != nil {
				return err
			}
			line(sent(i, r))
		}
	case "async":
		var open sync.WaitGroup
		open.Add(o.count)
		for n := 0; n < o.count; n++ {
			i := n
			err := p.SendAsync(ctx, func(_ context.Context, r *primitive.SendResult, err error) {
				defer open.Done()
				if err != nil {
					line(map[string]any{"failed": i, "reason": err.Error()})
					return
				}
				line(sent(i, r))
			}, o.message(i))
			if err != nil {
				return err
			}
		}
		open.Wait()
	case "batch":
		for i := 0; i < o.count; i += o.batch {
			var members []*primitive.Message
			for k := i; k < i+o.batch && k < o.count; k++ {
				members = append(members, o.message(k))
			}
			r, err := p.SendSync(ctx, members...)
			if err != nil {
				return err
			}
			line(sent(i, r))
		}
	default:
		return fmt.Errorf("mode %q", o.mode)
	}
	return nil
}

// A consumer that replies to every message, and a producer that asks it.
func requestReply(o options) error {
	newProducer := func(name string) (rocketmq.Producer, error) {
		p, err := rocketmq.NewProducer(
			producer.WithNameServer([]string{o.namesrv}), producer.WithGroupName("interop-go-"+name), producer.WithInstanceName(name),
			producer.WithSendMsgTimeout(15*time.Second),
		)
		if err != nil {
			return nil, err
		}
		return p, p.Start()
	}
	replier, err := newProducer("replier")
	if err != nil {
		return err
	}
	defer replier.Shutdown()
	asker, err := newProducer("asker")
	if err != nil {
		return err
	}
	defer asker.Shutdown()
	ctx := context.Background()
	// The topic, before anyone subscribes to it.
	if _, err := asker.SendSync(ctx, primitive.NewMessage(o.topic, []byte("first"))); err != nil {
		return err
	}
	c, err := rocketmq.NewPushConsumer(
		consumer.WithNameServer([]string{o.namesrv}), consumer.WithGroupName(o.group), consumer.WithInstance("consumer"),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	)
	if err != nil {
		return err
	}
	all := consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}
	err = c.Subscribe(o.topic, all, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, m := range messages {
			if m.GetProperty(primitive.PropertyCorrelationID) == "" {
				continue
			}
			reply, err := consumer.CreateReplyMessage(m, nil)
			if err != nil {
				line(map[string]any{"failed": err.Error()})
				continue
			}
			reply.Body = []byte("re:" + string(m.Body))
			// This client sends its first heartbeat late: until then nobody knows the asker.
			for tried := 0; tried < 100; tried++ {
				if _, err = replier.SendSync(ctx, reply); err == nil {
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
		}
		return consumer.ConsumeSuccess, nil
	})
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	for i := 0; i < o.count; i++ {
		answer, err := asker.Request(ctx, 20*time.Second, primitive.NewMessage(o.topic, []byte(fmt.Sprintf("go%d", i))))
		if err != nil {
			return err
		}
		line(map[string]any{"answer": i, "body": string(answer.Body)})
	}
	return c.Shutdown()
}

func consume(o options) error {
	model := consumer.Clustering
	if o.model == "broadcast" {
		model = consumer.BroadCasting
	}
	c, err := rocketmq.NewPushConsumer(
		consumer.WithNameServer([]string{o.namesrv}), consumer.WithGroupName(o.group), consumer.WithInstance(o.instance),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset), consumer.WithConsumerModel(model),
		consumer.WithConsumerOrder(o.orderly), consumer.WithMaxReconsumeTimes(int32(o.maxReconsume)),
	)
	if err != nil {
		return err
	}
	var lock sync.Mutex
	deliveries := map[string]int{}
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: o.expression}
	if o.sql != "" {
		selector = consumer.MessageSelector{Type: consumer.SQL92, Expression: o.sql}
	}
	err = c.Subscribe(o.topic, selector, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		again := false
		for _, m := range messages {
			id := m.GetProperty(primitive.PropertyUniqueClientMessageIdKeyIndex)
			lock.Lock()
			deliveries[id]++
			delivery := deliveries[id]
			lock.Unlock()
			again = again || delivery <= o.failFirst
			sum := sha256.Sum256(m.Body)
			line(map[string]any{
				"received": true, "topic": m.Topic, "queueId": m.Queue.QueueId, "queueOffset": m.QueueOffset, "msgId": m.MsgId,
				"offsetMsgId": m.OffsetMsgId, "bodySha256": hex.EncodeToString(sum[:]), "bodyLength": len(m.Body), "tags": m.GetTags(),
				"keys": m.GetKeys(), "index": m.GetProperty("index"), "reconsumeTimes": m.ReconsumeTimes, "delivery": delivery,
			})
		}
		if again && o.orderly {
			return consumer.SuspendCurrentQueueAMoment, nil
		}
		if again {
			return consumer.ConsumeRetryLater, nil
		}
		return consumer.ConsumeSuccess, nil
	})
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	line(map[string]any{"started": true})
	untilEndOfInput()
	return c.Shutdown()
}

func untilEndOfInput() {
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		// Only the end of the input means something.
	}
}

// What the local transactions and the checks of a producer say.
type verdicts struct {
	local []string
	check string
}

var states = map[string]primitive.LocalTransactionState{
	"commit": primitive.CommitMessageState, "rollback": primitive.RollbackMessageState, "unknown": primitive.UnknowState,
}

func (v verdicts) ExecuteLocalTransaction(m *primitive.Message) primitive.LocalTransactionState {
	index, _ := strconv.Atoi(m.GetProperty("index"))
	return states[v.local[index%len(v.local)]]
}

func (v verdicts) CheckLocalTransaction(m *primitive.MessageExt) primitive.LocalTransactionState {
	index, _ := strconv.Atoi(m.GetProperty("index"))
	line(map[string]any{"checked": index, "topic": m.Topic, "transactionId": m.TransactionId})
	return states[v.check]
}

func transact(o options) error {
	p, err := rocketmq.NewTransactionProducer(
		verdicts{strings.Split(o.local, ","), o.check},
		producer.WithNameServer([]string{o.namesrv}), producer.WithGroupName(o.group), producer.WithInstanceName(o.instance),
		producer.WithSendMsgTimeout(15*time.Second),
	)
	if err != nil {
		return err
	}
	if err := p.Start(); err != nil {
		return err
	}
	for i := 0; i < o.count; i++ {
		r, err := p.SendMessageInTransaction(context.Background(), o.message(i))
		if err != nil {
			return err
		}
		line(sent(i, r.SendResult))
	}
	line(map[string]any{"sentAll": true})
	untilEndOfInput()
	return p.Shutdown()
}
