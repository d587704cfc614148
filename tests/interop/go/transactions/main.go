// Program transactions has franz-go commit, abort, fence, and take records from one topic to another exactly
// once, and prints what came of it: NAME=VALUE lines. Its argument is where the broker listens.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	from   = "go-in"
	to     = "go-out"
	copied = "go-copied"
)

var bootstrap = os.Args[1]

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Second)
	defer cancel()
	for _, each := range []func(context.Context) error{commitAndAbort, fence, copyAll} {
		if err := each(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func client(more ...kgo.Opt) *kgo.Client {
	options := append([]kgo.Opt{kgo.SeedBrokers(bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner())}, more...)
	made, err := kgo.NewClient(options...)
	if err != nil {
		panic(err)
	}
	return made
}

func commitAndAbort(ctx context.Context) error {
	producer := client(kgo.TransactionalID("go-one"))
	defer producer.Close()
	for number := 0; number < 6; number++ {
		if err := producer.BeginTransaction(); err != nil {
			return err
		}
		for partition := int32(0); partition < 2; partition++ {
			value := []byte(fmt.Sprint(number))
			record := &kgo.Record{Topic: to, Partition: partition, Value: value}
			if err := producer.ProduceSync(ctx, record).FirstErr(); err != nil {
				return err
			}
		}
		if err := producer.EndTransaction(ctx, kgo.TransactionEndTry(number%2 == 0)); err != nil {
			return err
		}
	}
	for partition := int32(0); partition < 2; partition++ {
		values, err := read(ctx, to, partition, 3)
		if err != nil {
			return err
		}
		fmt.Printf("committed %d=%s\n", partition, values)
	}
	return nil
}

func fence(ctx context.Context) error {
	older := client(kgo.TransactionalID("go-two"))
	defer older.Close()
	if err := older.BeginTransaction(); err != nil {
		return err
	}
	record := &kgo.Record{Topic: to, Partition: 0, Value: []byte("of the older one")}
	if err := older.ProduceSync(ctx, record).FirstErr(); err != nil {
		return err
	}
	newer, err := begun(ctx, "go-two", "of the newer one")
	if err != nil {
		return err
	}
	defer newer.Close()
	err = older.EndTransaction(ctx, kgo.TryCommit)
	fmt.Printf("the older one is fenced=%t\n", err != nil && !kerr.IsRetriable(err))
	if err := newer.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return err
	}
	values, err := read(ctx, to, 0, 4)
	if err != nil {
		return err
	}
	fmt.Printf("after the fence=%s\n", values)
	return nil
}

// begun returns a client that has written a record in a transaction. While the one before is being aborted it is
// told CONCURRENT_TRANSACTIONS, by any broker, which franz-go leaves to its user.
func begun(ctx context.Context, transactionalID, value string) (*kgo.Client, error) {
	for {
		producer := client(kgo.TransactionalID(transactionalID))
		err := producer.BeginTransaction()
		if err == nil {
			record := &kgo.Record{Topic: to, Partition: 0, Value: []byte(value)}
			err = producer.ProduceSync(ctx, record).FirstErr()
		}
		if err == nil {
			return producer, nil
		}
		producer.Close()
		if !strings.Contains(err.Error(), kerr.ConcurrentTransactions.Message) {
			return nil, err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func copyAll(ctx context.Context) error {
	source := client()
	defer source.Close()
	for number := 0; number < 20; number++ {
		value := []byte(fmt.Sprint(number))
		if err := source.ProduceSync(ctx, &kgo.Record{Topic: from, Value: value}).FirstErr(); err != nil {
			return err
		}
	}
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(bootstrap),
		kgo.TransactionalID("go-copier"),
		kgo.ConsumerGroup("go-copiers"),
		kgo.ConsumeTopics(from),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxBytes(400),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequireStableFetchOffsets(),
	)
	if err != nil {
		return err
	}
	defer session.Close()
	commits := 0
	for done := 0; done < 20; {
		fetches := session.PollRecords(ctx, 7)
		if err := fetches.Err(); err != nil {
			return err
		}
		if err := session.Begin(); err != nil {
			return err
		}
		for _, each := range fetches.Records() {
			session.Produce(ctx, &kgo.Record{Topic: copied, Value: each.Value}, nil)
		}
		committed, err := session.End(ctx, kgo.TryCommit)
		if err != nil {
			return err
		}
		if committed {
			commits++
			done += len(fetches.Records())
		}
	}
	values, err := read(ctx, copied, 0, 20)
	if err != nil {
		return err
	}
	fmt.Printf("copied=%s\n", values)
	fmt.Printf("in several transactions=%t\n", commits > 1)
	return nil
}

func read(ctx context.Context, topic string, partition int32, count int) (string, error) {
	offsets := map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}}
	consumer := client(kgo.ConsumePartitions(offsets), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer consumer.Close()
	var values []string
	for len(values) < count {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return "", err
		}
		for _, each := range fetches.Records() {
			values = append(values, string(each.Value))
		}
	}
	return strings.Join(values, " "), nil
}
