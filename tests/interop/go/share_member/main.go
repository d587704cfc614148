// Program share_member is a member of a share group (KIP-932) by franz-go, until its input ends. Its arguments are
// where the broker listens, the group, the topic, and `implicit` or `explicit`.
//
// It prints "record PARTITION OFFSET DELIVERIES VALUE" for each record, "acknowledged 1" or "failed ERROR" as it
// hears what became of a partition's acknowledgements, and "closed" at last. In explicit mode a value tells what
// becomes of it: one that begins with "release" is released at its first delivery, "reject" is rejected, "renew"
// is renewed before it is accepted; all others are accepted.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// printer writes whole lines; franz-go calls back from its own goroutines.
type printer struct{ lock sync.Mutex }

func (p *printer) say(words ...any) {
	p.lock.Lock()
	defer p.lock.Unlock()
	fmt.Println(words...)
}

func main() {
	bootstrap, group, topic, explicit := os.Args[1], os.Args[2], os.Args[3], os.Args[4] == "explicit"
	out := &printer{}
	told := func(_ *kgo.Client, results kgo.ShareAckResults) {
		for _, each := range results {
			if each.Err != nil {
				out.say("failed", each.Err)
			} else {
				out.say("acknowledged 1")
			}
		}
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.ShareGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ShareAckCallback(told),
	)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	out.say("subscribed")
	ctx, end := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		end()
	}()
	for ctx.Err() == nil {
		fetched := client.PollRecords(ctx, 100)
		fetched.EachError(func(_ string, _ int32, err error) {
			if ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, err)
			}
		})
		fetched.EachRecord(func(record *kgo.Record) {
			out.say("record", record.Partition, record.Offset, record.DeliveryCount(), string(record.Value))
			if explicit {
				acknowledge(ctx, client, record)
			}
		})
	}
	client.Close()
	out.say("closed")
}

func acknowledge(ctx context.Context, client *kgo.Client, record *kgo.Record) {
	switch value := string(record.Value); {
	case strings.HasPrefix(value, "release") && record.DeliveryCount() < 2:
		record.Ack(kgo.AckRelease)
	case strings.HasPrefix(value, "reject"):
		record.Ack(kgo.AckReject)
	case strings.HasPrefix(value, "renew"):
		record.Ack(kgo.AckRenew)
		if err := client.FlushAcks(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		record.Ack(kgo.AckAccept)
	default:
		record.Ack(kgo.AckAccept)
	}
}
