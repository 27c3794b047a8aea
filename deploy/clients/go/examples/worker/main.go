// A worker that pops: worker TOPIC. The server lets it wait for due jobs; it has a time for each attempt and asks for more while it works; on
// SIGTERM it ends what it has begun, reports it, and takes nothing more.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	duetime "duetime/client"
	"duetime/examples/orders"
)

const (
	hands = 20
	ttr   = 3 * time.Second // a worker that dies costs its jobs so much time
)

type worker struct {
	client  *duetime.Client
	effects *orders.Effects
	free    chan struct{} // a place for each hand
	busy    sync.WaitGroup
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("worker TOPIC")
	}
	client, err := duetime.New(os.Getenv("DUETIME_URL"), duetime.Options{Token: os.Getenv("DUETIME_TOKEN"), CAFile: os.Getenv("DUETIME_CA_FILE")})
	if err != nil {
		log.Fatal(err)
	}
	effects, err := orders.Open()
	if err != nil {
		log.Fatal(err)
	}
	ending, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	w := &worker{client: client, effects: effects, free: make(chan struct{}, hands)}
	for ending.Err() == nil {
		w.pop(ending, os.Args[1])
	}
	w.busy.Wait()
	client.Close()
}

// pop asks for as many jobs as there are free hands, at least one. A pop is not interrupted: its jobs would have to wait for their time.
func (w *worker) pop(ending context.Context, topic string) {
	w.free <- struct{}{}
	wanted := 1
	for wanted < hands && w.take() {
		wanted++
	}
	jobs, err := w.client.Pop(context.Background(), duetime.Pop{Topics: []string{topic}, Max: wanted, Wait: 5 * time.Second, TTR: ttr})
	if err != nil {
		log.Printf("nothing popped: %v", err)
		select {
		case <-time.After(time.Second):
		case <-ending.Done():
		}
	}
	for i := len(jobs); i < wanted; i++ {
		<-w.free
	}
	for _, job := range jobs {
		w.busy.Add(1)
		go w.attend(job)
	}
}

func (w *worker) take() bool {
	select {
	case w.free <- struct{}{}:
		return true
	default:
		return false
	}
}

func (w *worker) attend(job duetime.Job) {
	defer func() { <-w.free; w.busy.Done() }()
	over := make(chan struct{})
	go w.extend(job, over)
	report, err := w.effects.Attend(job.ID, job.Attempt, job.Payload)
	close(over)
	if report != nil && err == nil {
		w.report(*report)
	} else if err != nil {
		log.Printf("job %s: %v", job.ID, err)
	}
}

func (w *worker) extend(job duetime.Job, over chan struct{}) {
	again := time.NewTicker(ttr / 3)
	defer again.Stop()
	for {
		select {
		case <-over:
			return
		case <-again.C:
			w.report(duetime.Report{JobID: job.ID, Attempt: job.Attempt, Status: duetime.Extended})
		}
	}
}

// report leaves an attempt that it cannot report on to its deadline. Reports of several hands leave together.
func (w *worker) report(report duetime.Report) {
	if _, err := w.client.Report(context.Background(), report); err != nil {
		log.Printf("job %s: %v", report.JobID, err)
	}
}
