// A consumer of Kafka: consumer TOPIC. It reads committed messages, works, reports, and only then commits its offsets: whatever dies in
// between comes again, and is known by its attempt.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"duetime/examples/orders"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("consumer TOPIC")
	}
	topic := os.Args[1]
	kafka, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(os.Getenv("DUETIME_KAFKA"), ",")...),
		kgo.ConsumerGroup("orders-"+topic),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),        // no partition goes away while its messages are worked on
		kgo.SessionTimeout(6*time.Second), // so long after a kill -9 its partitions wait for the next consumer
		kgo.HeartbeatInterval(time.Second),
		kgo.MetadataMaxAge(5*time.Second), // the topic is made when its first job is due
		kgo.MetadataMinAge(500*time.Millisecond),
		kgo.DefaultProduceTopic("duetime.results"),
	)
	if err != nil {
		log.Fatal(err)
	}
	effects, err := orders.Open()
	if err != nil {
		log.Fatal(err)
	}
	ending, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for ending.Err() == nil {
		records := kafka.PollRecords(ending, 100).Records()
		if err := attend(kafka, effects, records); err != nil {
			log.Fatal(err) // what was not committed comes again
		}
		kafka.AllowRebalance()
	}
	kafka.Close()
}

// attend works on a batch. Its offsets are committed once its reports are in Kafka.
func attend(kafka *kgo.Client, effects *orders.Effects, records []*kgo.Record) error {
	if len(records) == 0 {
		return nil
	}
	var reports []*kgo.Record
	for _, record := range records {
		report, err := reportOn(effects, record)
		if err != nil {
			return err
		}
		if report != nil {
			reports = append(reports, report)
		}
	}
	if err := kafka.ProduceSync(context.Background(), reports...).FirstErr(); err != nil {
		return err
	}
	return kafka.CommitRecords(context.Background(), records...)
}

func reportOn(effects *orders.Effects, record *kgo.Record) (*kgo.Record, error) {
	headers := map[string]string{}
	for _, header := range record.Headers {
		headers[header.Key] = string(header.Value)
	}
	attempt, err := strconv.Atoi(headers["ce_attempt"])
	if err != nil {
		return nil, errors.New("not a job of duetime")
	}
	report, err := effects.Attend(headers["ce_jobid"], attempt, record.Value)
	if report == nil || err != nil {
		return nil, err
	}
	value, err := json.Marshal(report)
	return &kgo.Record{Key: []byte(report.JobID), Value: value}, err
}
