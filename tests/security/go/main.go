// Writes records and reads them back by franz-go, as one who has to show who it is; a line for each on standard output.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type options struct {
	Bootstrap, Trusted, Client, Mechanism, User, Password, Token, Topic string
	Count                                                               int
	Seconds                                                             int
}

func main() {
	var given options
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		fail(err)
	}
	if err := run(given); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func run(given options) error {
	settings, err := settingsOf(given)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(given.Seconds)*time.Second)
	defer cancel()
	client, err := kgo.NewClient(settings...)
	if err != nil {
		return err
	}
	defer client.Close()
	for number := 0; number < given.Count; number++ {
		record := &kgo.Record{Topic: given.Topic, Value: []byte(fmt.Sprint(number))}
		if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
			return err
		}
	}
	for read := 0; read < given.Count; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(record *kgo.Record) {
			fmt.Println(string(record.Value))
			read++
		})
	}
	return nil
}

func settingsOf(given options) ([]kgo.Opt, error) {
	settings := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(given.Bootstrap, ",")...),
		kgo.ConsumeTopics(given.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.AllowAutoTopicCreation(),
		kgo.RequestRetries(2),
		kgo.RecordRetries(2),
		kgo.UnknownTopicRetries(20),
	}
	if given.Trusted != "" {
		config, err := encrypted(given)
		if err != nil {
			return nil, err
		}
		settings = append(settings, kgo.DialTLSConfig(config))
	}
	if mechanism := shown(given); mechanism != nil {
		settings = append(settings, kgo.SASL(mechanism))
	}
	return settings, nil
}

func encrypted(given options) (*tls.Config, error) {
	trusted, err := os.ReadFile(given.Trusted)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(trusted)
	config := &tls.Config{RootCAs: pool, ServerName: "localhost"}
	if given.Client != "" {
		pair, err := tls.LoadX509KeyPair(given.Client, given.Client)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func shown(given options) sasl.Mechanism {
	switch given.Mechanism {
	case "PLAIN":
		return plain.Auth{User: given.User, Pass: given.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: given.User, Pass: given.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: given.User, Pass: given.Password}.AsSha512Mechanism()
	case "OAUTHBEARER":
		return oauth.Auth{Token: given.Token}.AsMechanism()
	}
	return nil
}
