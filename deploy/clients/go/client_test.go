package duetime

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

func client(t *testing.T, url string, options Options) *Client {
	t.Helper()
	options.Token = os.Getenv("DUETIME_TOKEN")
	made, err := New(url, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	return made
}

func topicOf(*testing.T) string {
	return fmt.Sprintf("go-%x", rand.New(rand.NewSource(time.Now().UnixNano())).Int63())
}

// made gives a result for each line, as the server does.
func made(asked string) string {
	told := ""
	for i := 0; i < strings.Count(asked, "\n"); i++ {
		told += fmt.Sprintf("{\"status\":201,\"id\":\"%d\"}\n", i)
	}
	return told
}

func until(t *testing.T, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within 30 s")
		}
	}
}

func within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	_ = cancel // it ends by itself, before the test does
	return ctx
}

var bg = context.Background()

func hour(topic string, payload any) NewJob {
	return NewJob{Topic: topic, Payload: payload, Delay: time.Hour}
}

func create(t *testing.T, c *Client, job NewJob) Created {
	t.Helper()
	created, err := c.Create(bg, job)
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// together makes all jobs at one time, each in a goroutine of its own.
func together(c *Client, jobs ...NewJob) ([]Created, []error) {
	created, failed := make([]Created, len(jobs)), make([]error, len(jobs))
	var all sync.WaitGroup
	for i := range jobs {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			created[i], failed[i] = c.Create(bg, jobs[i])
		}(i)
	}
	all.Wait()
	return created, failed
}

func TestEachOfManyCallersGetsTheAnswerToItsOwnJob(t *testing.T) {
	between, topic := newBetween(t), topicOf(t)
	c := client(t, between.url(), Options{})
	jobs := make([]NewJob, 640)
	for i := range jobs {
		jobs[i] = hour(topic, map[string]int{"n": i})
	}
	created, failed := together(c, jobs...)
	ids := map[string]bool{}
	for i := range created {
		if failed[i] != nil {
			t.Fatal(failed[i])
		}
		ids[created[i].ID] = true
	}
	if len(ids) != 640 {
		t.Fatalf("%d ids", len(ids))
	}
	if n := len(between.asked()); n > 320 {
		t.Errorf("%d requests for 640 creates", n)
	}
	job, err := c.Get(bg, created[77].ID)
	if err != nil || string(job.Payload) != `{"n":77}` {
		t.Errorf("%s %v", job.Payload, err)
	}
}

func TestLingeringCreatesLeaveTogetherAndABadOneAlone(t *testing.T) {
	between, topic := newBetween(t), topicOf(t)
	c := client(t, between.url(), Options{Linger: 30 * time.Second, BatchLines: 3})
	bad := hour(topic, nil)
	bad.Headers = map[string]string{"ce_id": "mine"}
	created, failed := together(c, hour(topic, 1), bad, hour(topic, 2))
	if failed[0] != nil || failed[2] != nil || created[0].ID == created[2].ID {
		t.Fatal(created, failed)
	}
	var problem *Problem
	if !errors.Is(failed[1], ErrInvalid) || !errors.As(failed[1], &problem) || !strings.HasPrefix(problem.Errors[0].Pointer, "/headers") {
		t.Fatal(failed[1])
	}
	if n := len(between.asked()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestABatchIsBoundedInLinesAndBytes(t *testing.T) {
	server := newTeller(t, saying{status: 200, body: made})
	server.hold.Lock()
	c := client(t, server.URL, Options{Connections: 1, BatchLines: 10, BatchBytes: 10_000})
	jobs := make([]NewJob, 50)
	for i := range jobs {
		jobs[i] = hour("t", strings.Repeat("x", 1+i/40*3000))
	}
	time.AfterFunc(100*time.Millisecond, server.hold.Unlock)
	if _, failed := together(c, jobs...); failed[0] != nil {
		t.Fatal(failed[0])
	}
	lines := 0
	for _, body := range server.asked() {
		lines += strings.Count(body, "\n")
		if strings.Count(body, "\n") > 10 || len(body) > 10_000 {
			t.Errorf("%d lines, %d bytes", strings.Count(body, "\n"), len(body))
		}
	}
	if lines != 50 {
		t.Errorf("%d lines", lines)
	}
}

func TestCallersWaitWhileTooMuchWaits(t *testing.T) {
	server := newTeller(t, saying{status: 200, body: made})
	server.hold.Lock()
	c := client(t, server.URL, Options{Connections: 1, BatchLines: 1, WaitingLines: 2})
	ends := make(chan error, 4)
	start := func() { go func() { _, err := c.Create(bg, hour("t", nil)); ends <- err }() }
	start()
	until(t, func() bool { return len(server.asked()) == 1 })
	start()
	start()
	until(t, func() bool { c.creates.lock.Lock(); defer c.creates.lock.Unlock(); return len(c.creates.waiting) == 2 })
	_, err := c.Create(within(50*time.Millisecond), hour("t", nil))
	if !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "too many") {
		t.Fatal(err)
	}
	start()
	server.hold.Unlock()
	for i := 0; i < 4; i++ {
		if err := <-ends; err != nil {
			t.Fatal(err)
		}
	}
	if n := len(server.asked()); n != 4 {
		t.Errorf("%d requests", n)
	}
}

func TestWithAKeyALostAnswerIsAskedForAgain(t *testing.T) {
	between, topic := newBetween(t), topicOf(t)
	c := client(t, between.url(), Options{})
	between.lose(2)
	job := hour(topic, 1)
	job.Key = "k"
	created := create(t, c, job)
	found, err := c.GetByKey(bg, topic, "k")
	if !created.Existed || err != nil || found.ID != created.ID {
		t.Fatal(created, found.ID, err)
	}
	job.Payload = 2
	_, err = c.Create(bg, job)
	var problem *Problem
	if !errors.Is(err, ErrKeyConflict) || !errors.As(err, &problem) || problem.ID != created.ID {
		t.Fatal(err)
	}
}

func TestWithoutAKeyALostAnswerIsAnUnknownOutcome(t *testing.T) {
	between, topic := newBetween(t), topicOf(t)
	c := client(t, between.url(), Options{})
	create(t, c, hour(topic, 0)) // the connection is a kept one
	between.lose(1)
	if _, err := c.Create(bg, hour(topic, 1)); !errors.Is(err, ErrOutcomeUnknown) {
		t.Fatal(err)
	}
	if n := len(between.asked()); n != 2 {
		t.Errorf("%d requests", n)
	}
	keyed := client(t, between.url(), Options{MakeKeys: true})
	between.lose(1)
	if !create(t, keyed, hour(topic, 1)).Existed || create(t, keyed, hour(topic, 1)).Existed {
		t.Error("keys that the client makes do as well")
	}
}

func TestAnswersThatAreLostUntilTheDeadlineAreAnUnknownOutcome(t *testing.T) {
	between := newBetween(t)
	between.lose(1_000_000)
	job := hour(topicOf(t), 1)
	job.Key = "k"
	_, err := client(t, between.url(), Options{}).Create(within(time.Second), job)
	if !errors.Is(err, ErrOutcomeUnknown) {
		t.Fatal(err)
	}
}

func TestAConnectionThatEndedWhileIdleIsNoUnknownOutcome(t *testing.T) {
	between, topic := newBetween(t), topicOf(t)
	c := client(t, between.url(), Options{Connections: 1})
	for i := 0; i < 3; i++ {
		create(t, c, hour(topic, i))
		between.endAll()
		time.Sleep(100 * time.Millisecond) // the transport is told
	}
}

func TestRetryAfterIsObeyed(t *testing.T) {
	no := func(string) string { return `{"type":"/problems/unavailable","title":"not now"}` }
	line := func(string) string {
		return `{"type":"/problems/quota-exceeded","title":"slowly","status":429,"retry_after":"PT0.5S"}` + "\n"
	}
	server := newTeller(t, saying{503, "1", no}, saying{429, "1", no}, saying{200, "", line}, saying{200, "", made})
	began := time.Now()
	create(t, client(t, server.URL, Options{}), hour("t", nil))
	if took := time.Since(began); took < 2500*time.Millisecond || len(server.asked()) != 4 {
		t.Error(took, server.asked())
	}
}

func TestAServerThatAsksForNoPauseIsNotAskedAllTheTime(t *testing.T) {
	server := newTeller(t, saying{503, "0", func(string) string { return `{"type":"/problems/unavailable","title":"not now"}` }})
	c := client(t, server.URL, Options{Timeout: time.Second})
	if _, err := c.Create(bg, hour("t", nil)); !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
	if _, err := c.Pop(within(time.Second), Pop{Topics: []string{"t"}}); !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
	if asked := len(server.asked()); asked > 30 {
		t.Error(asked, "requests in two seconds")
	}
}

func TestAnAnswerThatAProxyHasLostIsAnUnknownOutcome(t *testing.T) {
	lost := func(string) string { return "<html>" }
	server := newTeller(t, saying{502, "", lost}, saying{504, "", lost}, saying{200, "", made}, saying{502, "", lost})
	c := client(t, server.URL, Options{})
	if created := create(t, c, NewJob{Topic: "t", Key: "k"}); created.ID != "0" || len(server.asked()) != 3 {
		t.Error(created, server.asked())
	}
	if _, err := c.Create(bg, hour("t", nil)); !errors.Is(err, ErrOutcomeUnknown) {
		t.Error(err)
	}
	if _, err := c.Pop(bg, Pop{Topics: []string{"t"}}); !errors.Is(err, ErrOutcomeUnknown) {
		t.Error(err)
	}
}

func TestARedirectIsARefusal(t *testing.T) {
	server := newTeller(t, saying{301, "", func(string) string { return "" }})
	c := client(t, server.URL, Options{})
	var problem *Problem
	if created, err := c.Create(bg, hour("t", nil)); !errors.As(err, &problem) || problem.Status != 301 {
		t.Error(created, err)
	}
	if job, err := c.Get(bg, "1"); !errors.As(err, &problem) || problem.Status != 301 {
		t.Error(job, err)
	}
}

func TestNobodyThereIsUnavailableAtTheDeadline(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	c := client(t, "http://"+listener.Addr().String(), Options{Timeout: 2 * time.Second})
	if _, err := c.Create(bg, hour("t", nil)); !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
	if _, err := c.Get(bg, "1"); !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
}

func TestAnAnswerThatIsLateIsAnUnknownOutcome(t *testing.T) {
	server := newTeller(t, saying{status: 200, body: made})
	server.hold.Lock()
	defer server.hold.Unlock()
	ctx, cancel := context.WithCancel(bg)
	go func() {
		until(t, func() bool { return len(server.asked()) == 1 })
		cancel()
	}()
	if _, err := client(t, server.URL, Options{}).Create(ctx, hour("t", nil)); !errors.Is(err, ErrOutcomeUnknown) || !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestABatchThatEndedEarlyGoesOn(t *testing.T) {
	half := func(string) string {
		return made("\n") + `{"status":413,"type":"/problems/too-large","title":"no job was created from here on"}` + "\n"
	}
	server := newTeller(t, saying{200, "", half}, saying{200, "", made})
	c := client(t, server.URL, Options{Linger: 30 * time.Second, BatchLines: 3})
	if _, failed := together(c, hour("t", 1), hour("t", 2), hour("t", 3)); failed[0] != nil || failed[1] != nil || failed[2] != nil {
		t.Fatal(failed)
	}
	if asked := server.asked(); len(asked) != 2 || strings.Count(asked[1], "\n") != 2 {
		t.Fatal(asked)
	}
}

func TestAJobIsPoppedAndReported(t *testing.T) {
	topic := topicOf(t)
	c := client(t, apiURL(t), Options{})
	if err := c.PutTopic(bg, topic, map[string]any{"delivery": "pull"}); err != nil {
		t.Fatal(err)
	}
	made := create(t, c, NewJob{Topic: topic, PayloadBytes: []byte{0, 255}, ContentType: "image/x", Retry: []time.Duration{time.Millisecond}})
	jobs, err := c.Pop(bg, Pop{Topics: []string{topic}, Max: 5, Wait: 20 * time.Second, TTR: time.Minute})
	if err != nil || len(jobs) != 1 || jobs[0].ID != made.ID || jobs[0].Attempt != 1 || string(jobs[0].PayloadBytes) != "\x00\xff" {
		t.Fatal(jobs, err)
	}
	report := Report{JobID: made.ID, Attempt: 1, Status: Failed, Error: &AttemptError{"busy", "later"}, RetryAfter: time.Millisecond}
	for _, outcome := range []string{"applied", "duplicate"} {
		if told, err := c.Report(bg, report); err != nil || told != outcome {
			t.Fatal(told, err)
		}
	}
	jobs, err = c.Pop(bg, Pop{Topics: []string{topic}, Wait: 20 * time.Second})
	if err != nil || len(jobs) != 1 || jobs[0].Attempt != 2 {
		t.Fatal(jobs, err)
	}
	if told, err := c.Report(bg, Report{JobID: made.ID, Attempt: 2, Status: Succeeded}); err != nil || told != "applied" {
		t.Fatal(told, err)
	}
	attempts, err := c.Attempts(bg, made.ID)
	if err != nil || len(attempts) != 2 || attempts[0].Error.Message != "later" || attempts[1].Status != Succeeded {
		t.Fatal(attempts, err)
	}
	_, err = c.Cancel(bg, made.ID)
	var problem *Problem
	if !errors.Is(err, ErrTooLate) || !errors.As(err, &problem) || problem.State != "succeeded" || problem.Attempt != 2 {
		t.Fatal(err)
	}
}

func TestAScheduledJobIsChangedAndCancelled(t *testing.T) {
	c := client(t, apiURL(t), Options{})
	id := create(t, c, NewJob{Topic: topicOf(t), RunAt: time.Now().Add(time.Hour), Payload: 1}).ID
	day := 24 * time.Hour
	job, err := c.Change(bg, id, Change{Delay: &day, Payload: []int{1, 2}, IfMatch: 1})
	if err != nil || string(job.Payload) != "[1,2]" || job.Version != 2 || time.Until(job.RunAt) < 23*time.Hour {
		t.Fatal(job, err)
	}
	if _, err := c.Change(bg, id, Change{Payload: 3, IfMatch: 1}); !errors.Is(err, ErrVersionMismatch) {
		t.Fatal(err)
	}
	if job, err = c.Cancel(bg, id); err != nil || job.State != "cancelled" {
		t.Fatal(job, err)
	}
	if _, err = c.GetByKey(bg, job.Topic, "none"); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
}
