// Package orders is what the consumer and the worker have in common: the work, and the record of what was done, by which a repeated message, a
// repeated attempt and an attempt that was overtaken are known.
package orders

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	duetime "duetime/client"
)

// An Order is the payload of a job.
type Order struct {
	N          int  `json:"n"`
	Fails      int  `json:"fails,omitempty"`
	Impossible bool `json:"impossible,omitempty"`
}

var errImpossible = errors.New("it cannot be closed")

// work is the place for your own work: it returns an error when it fails.
func work(order Order, attempt int) error {
	time.Sleep(2 * time.Millisecond)
	if order.Impossible {
		return fmt.Errorf("order %d: %w", order.N, errImpossible)
	}
	if attempt <= order.Fails {
		return fmt.Errorf("attempt %d at order %d fails", attempt, order.N)
	}
	return nil
}

type done struct {
	attempt int
	status  string
}

// Effects has a line "JOB ATTEMPT STATUS" for each attempt that was worked on. In your application it is a row, written in the work's own
// transaction.
type Effects struct {
	lock sync.Mutex
	file *os.File
	last map[string]done
}

// Open reads the effects so far from DUETIME_EFFECTS, to which it adds.
func Open() (*Effects, error) {
	path := os.Getenv("DUETIME_EFFECTS")
	if path == "" {
		path = "effects.log"
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	effects := &Effects{file: file, last: map[string]done{}}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var job string
		var last done
		if _, err := fmt.Sscan(lines.Text(), &job, &last.attempt, &last.status); err == nil {
			effects.last[job] = last
		}
	}
	return effects, nil
}

// Attend works on an attempt, unless it is known. Nil: there is nothing to report, a later attempt has overtaken it.
func (e *Effects) Attend(job string, attempt int, payload []byte) (*duetime.Report, error) {
	report := &duetime.Report{JobID: job, Attempt: attempt}
	if last := e.of(job); last.attempt > attempt {
		return nil, nil
	} else if last.attempt == attempt || last.status == duetime.Succeeded || last.status == duetime.GaveUp {
		report.Status = last.status
		return report, nil
	}
	var order Order
	err := json.Unmarshal(payload, &order)
	if err == nil {
		err = work(order, attempt)
	}
	report.Status = statusOf(err)
	if err != nil {
		report.Error = &duetime.AttemptError{Code: "order", Message: err.Error()}
	}
	return report, e.record(job, done{attempt, report.Status})
}

func statusOf(err error) string {
	switch {
	case err == nil:
		return duetime.Succeeded
	case errors.Is(err, errImpossible):
		return duetime.GaveUp
	}
	return duetime.Failed
}

func (e *Effects) of(job string) done {
	e.lock.Lock()
	defer e.lock.Unlock()
	return e.last[job]
}

func (e *Effects) record(job string, now done) error {
	e.lock.Lock()
	defer e.lock.Unlock()
	e.last[job] = now
	_, err := fmt.Fprintf(e.file, "%s %d %s\n", job, now.attempt, now.status)
	return err
}
