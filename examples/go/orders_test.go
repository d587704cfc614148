// Package orders tests with franz-go on a broker of its own: go test ./...
package orders

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestAnOrderIsReadByItsGroupAndCommitted(t *testing.T) {
	broker := startBroker(t, "num.partitions=3")
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()

	producer, err := kgo.NewClient(kgo.SeedBrokers(broker.kafka), kgo.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	order := &kgo.Record{Topic: "orders", Key: []byte("7"), Value: []byte("two pizzas")}
	if err := producer.ProduceSync(ctx, order).FirstErr(); err != nil {
		t.Fatal(err)
	}

	consumer, err := kgo.NewClient(
		kgo.SeedBrokers(broker.kafka),
		kgo.ConsumerGroup("kitchen"),
		kgo.ConsumeTopics("orders"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	fetches := consumer.PollFetches(ctx)
	if err := fetches.Err(); err != nil {
		t.Fatal(err)
	}
	records := fetches.Records()
	if len(records) != 1 || string(records[0].Value) != "two pizzas" {
		t.Fatalf("read %v", records)
	}
	if err := consumer.CommitRecords(ctx, records...); err != nil {
		t.Fatal(err)
	}
	partition, offset := records[0].Partition, records[0].Offset+1
	commit := map[string]any{"group": "kitchen", "topic": "orders", "partition": partition, "offset": offset}
	broker.post(t, "/expect/commit", commit)
}

func TestAnOrderIsSentAgainWhenItsAnswerIsTorn(t *testing.T) {
	broker := startBroker(t)
	broker.post(t, "/topics", map[string]any{"name": "orders", "partitions": 1})
	broker.post(t, "/faults", map[string]any{"api": "Produce", "action": "tear"})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	producer, err := kgo.NewClient(kgo.SeedBrokers(broker.kafka))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	order := &kgo.Record{Topic: "orders", Value: []byte("two pizzas")}
	if err := producer.ProduceSync(ctx, order).FirstErr(); err != nil {
		t.Fatal(err)
	}
	broker.post(t, "/expect/records", map[string]any{"topic": "orders", "values": []string{"two pizzas"}})
}
