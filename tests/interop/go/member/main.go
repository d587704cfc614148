// Program member is a member of a consumer group (KIP-848) by franz-go. Its arguments are where the broker
// listens, the group, and the topic. It prints what it has, and what it reads, a line each, commits what it has
// read, and leaves when its input ends.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// owned is what the member has; franz-go calls back from its own goroutines.
type owned struct {
	lock       sync.Mutex
	partitions []int32
}

func (o *owned) change(gained, gone []int32) {
	o.lock.Lock()
	defer o.lock.Unlock()
	o.partitions = slices.DeleteFunc(o.partitions, func(each int32) bool { return slices.Contains(gone, each) })
	o.partitions = append(o.partitions, gained...)
	slices.Sort(o.partitions)
	words := make([]string, 0, len(o.partitions)+1)
	words = append(words, "owns")
	for _, each := range o.partitions {
		words = append(words, fmt.Sprint(each))
	}
	fmt.Println(strings.Join(words, " "))
}

func main() {
	bootstrap, group, topic := os.Args[1], os.Args[2], os.Args[3]
	has := &owned{}
	gained := func(_ context.Context, _ *kgo.Client, given map[string][]int32) { has.change(given[topic], nil) }
	gone := func(_ context.Context, _ *kgo.Client, taken map[string][]int32) { has.change(nil, taken[topic]) }
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ServerSideBalancer(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(gained),
		kgo.OnPartitionsRevoked(gone),
		kgo.OnPartitionsLost(gone),
	)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	ctx, end := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		end()
	}()
	for ctx.Err() == nil {
		fetched := client.PollFetches(ctx)
		fetched.EachRecord(func(record *kgo.Record) { fmt.Println("record", string(record.Value)) })
		if err := client.CommitUncommittedOffsets(ctx); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	client.Close()
	fmt.Println("closed")
}
