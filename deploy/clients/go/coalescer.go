package duetime

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// A coalescer sends lines that wait at the same time as one batch.
//
//	add ──▶ waiting ──▶ a sender takes what there is (bounded) ──▶ one request ──▶ each line's own answer
//	           ▲                                                       │
//	           └── at the front, after a pause: refused for the moment, or outcome unknown and repeatable
//
// There are at most Connections senders, which end when nothing waits. A line that is alone leaves at once; while all senders are busy the
// next batch gathers. A line is settled once, or given up by its caller. The lock is never held while a request is under way.
type coalescer struct {
	server *server
	path   string
	limits Options

	lock       sync.Mutex
	waiting    []*line
	bytes      int
	callers    []chan struct{} // wait for room, in their order
	senders    int
	wake       chan struct{} // a batch is full before its lines have lingered
	pauseUntil time.Time
	failures   int
}

type line struct {
	data       []byte
	repeatable bool
	deadline   time.Time
	putAt      time.Time // zero: it has lingered
	settled    chan settlement
	why        string // it is not settled yet
	underWay   bool   // in a request now
	inDoubt    bool   // an earlier request with it may have been carried out
	abandoned  bool   // nobody awaits it any more
}

type settlement struct {
	told told
	err  error
}

// told is what the server says of one line: an answer or a problem.
type told struct {
	Problem
	Outcome string `json:"outcome"`
}

func newCoalescer(server *server, path string, limits Options) *coalescer {
	return &coalescer{server: server, path: path, limits: limits, wake: make(chan struct{}, 1)}
}

// add returns the answer to a line, which begins to wait when there is room.
func (c *coalescer) add(ctx context.Context, data []byte, repeatable bool) (told, error) {
	added := &line{data: data, repeatable: repeatable, settled: make(chan settlement, 1), why: "it was not sent in time"}
	added.deadline, _ = ctx.Deadline()
	if err := c.put(ctx, added); err != nil {
		return told{}, err
	}
	select {
	case end := <-added.settled:
		return end.told, end.err
	case <-ctx.Done():
		return c.abandon(ctx, added)
	}
}

func (c *coalescer) put(ctx context.Context, added *line) error {
	c.lock.Lock()
	for len(c.waiting) >= c.limits.WaitingLines || c.bytes >= c.limits.WaitingBytes {
		room := make(chan struct{})
		c.callers = append(c.callers, room)
		c.lock.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			c.pass(room)
			return failure(false, "too many lines wait", "", ctx.Err())
		}
		c.lock.Lock()
	}
	defer c.lock.Unlock()
	added.putAt = time.Now()
	c.waiting = append(c.waiting, added)
	c.bytes += len(added.data)
	c.rouse()
	return nil
}

// pass gives a place for which its caller does not wait any more to the next one.
func (c *coalescer) pass(room chan struct{}) {
	c.lock.Lock()
	defer c.lock.Unlock()
	for i, caller := range c.callers {
		if caller == room {
			c.callers = append(c.callers[:i], c.callers[i+1:]...)
			return
		}
	}
	c.letIn(1)
}

func (c *coalescer) letIn(n int) {
	for ; n > 0 && len(c.callers) > 0; n-- {
		close(c.callers[0])
		c.callers = c.callers[1:]
	}
}

func (c *coalescer) full() bool {
	return len(c.waiting) >= c.limits.BatchLines || c.bytes >= c.limits.BatchBytes
}

// rouse sees to it that what waits is sent. The lock is held.
func (c *coalescer) rouse() {
	if c.senders < c.limits.Connections {
		c.senders++
		go c.send()
	} else if c.full() {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
}

// abandon ends a line whose context has ended.
func (c *coalescer) abandon(ctx context.Context, given *line) (told, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	select {
	case end := <-given.settled:
		return end.told, end.err
	default:
		given.abandoned = true
		return told{}, failure(given.underWay || given.inDoubt, given.why, "", ctx.Err())
	}
}

// ---- senders ----

func (c *coalescer) send() {
	for {
		batch, wait := c.take()
		switch {
		case batch != nil:
			c.request(batch)
		case wait < 0:
			return
		default:
			c.rest(wait)
		}
	}
}

func (c *coalescer) rest(wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.wake:
	}
}

// take gives a batch, or the time until there may be one; negative when nothing waits and the sender is to end.
func (c *coalescer) take() ([]*line, time.Duration) {
	c.lock.Lock()
	defer c.lock.Unlock()
	for len(c.waiting) > 0 {
		if wait := c.untilReady(); wait > 0 {
			return nil, wait
		}
		if batch := c.cut(); len(batch) > 0 {
			return batch, 0
		}
	}
	c.senders--
	return nil, -1
}

func (c *coalescer) untilReady() time.Duration {
	ready := c.waiting[0].putAt
	if !c.full() && !ready.IsZero() {
		ready = ready.Add(c.limits.Linger)
	}
	if c.pauseUntil.After(ready) {
		ready = c.pauseUntil
	}
	return time.Until(ready)
}

// cut takes as many of the first lines as one request may have; those that were given up are dropped.
func (c *coalescer) cut() []*line {
	var batch []*line
	size, taken := 0, 0
	for i, next := range c.waiting {
		if len(batch) == c.limits.BatchLines || (len(batch) > 0 && size+len(next.data) > c.limits.BatchBytes) {
			break
		}
		taken++
		c.waiting[i] = nil
		c.bytes -= len(next.data)
		if !next.abandoned {
			next.underWay = true
			batch = append(batch, next)
			size += len(next.data)
		}
	}
	c.waiting = c.waiting[taken:]
	c.letIn(taken)
	return batch
}

// ---- one request ----

func (c *coalescer) request(batch []*line) {
	deadline := batch[0].deadline
	var body bytes.Buffer
	for _, one := range batch {
		body.Write(one.data)
		if one.deadline.After(deadline) {
			deadline = one.deadline
		}
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	reply, err := c.server.ask(ctx, request{method: http.MethodPost, path: c.path, lines: body.Bytes()})
	said := make([]told, 0, len(batch))
	pause := reply.retryAfter
	switch {
	case err != nil:
		said, pause = append(said, unanswered(err)), -1
	case reply.status == http.StatusOK:
		said = reply.told(said)
	default:
		said = append(said, told{Problem: reply.problem()})
	}
	c.settle(batch, filled(said, len(batch)), pause)
}

// unanswered is what a request without an answer means for each of its lines.
func unanswered(err error) told {
	none := told{Problem: Problem{Type: "unavailable", Status: http.StatusServiceUnavailable, Detail: err.Error()}}
	if again, ok := err.(*notNow); ok && again.doubted {
		none.Type = "outcome-unknown"
	}
	return none
}

func (a answer) told(said []told) []told {
	for _, text := range bytes.Split(a.body, []byte("\n")) {
		if len(text) == 0 {
			continue
		}
		var one told
		if json.Unmarshal(text, &one) != nil {
			break
		}
		said = append(said, one)
	}
	return said
}

// filled gives a result for each line. A batch that the server ended early has fewer: the last one is a problem, and holds for the rest. When
// that is 413, the lines before it were made: what is left comes in a request of its own.
func filled(said []told, count int) []told {
	if len(said) >= count {
		return said
	}
	last := told{Problem: Problem{Type: "outcome-unknown", Status: http.StatusServiceUnavailable, Title: "no result"}}
	if n := len(said); n > 0 && said[n-1].Status >= 400 {
		last = said[n-1]
		said = said[:n-1]
		if last.Status == http.StatusRequestEntityTooLarge && n > 1 {
			last.Status = http.StatusServiceUnavailable
		}
	}
	for len(said) < count {
		said = append(said, last)
	}
	return said
}

// settle tells each line what was said of it; what is to be sent again goes back to the front, and nothing leaves before the pause is over.
func (c *coalescer) settle(batch []*line, said []told, pause time.Duration) {
	c.lock.Lock()
	defer c.lock.Unlock()
	var again []*line
	for i, one := range batch {
		if !one.settle(&said[i]) && !one.abandoned {
			if own := duration(said[i].RetryAfter); own > pause {
				pause = own
			}
			one.underWay, one.putAt = false, time.Time{}
			again = append(again, one)
			c.bytes += len(one.data)
		}
	}
	if len(again) == 0 {
		c.failures = 0
		return
	}
	c.failures++
	if until := time.Now().Add(pauseOf(pause, c.failures)); until.After(c.pauseUntil) {
		c.pauseUntil = until
	}
	c.waiting = append(again, c.waiting...)
}

// settle is false for a line that is to be sent again.
func (l *line) settle(said *told) bool {
	problem := said.Problem
	switch {
	case problem.Status < 300:
		l.settled <- settlement{told: *said}
	case problem.doubted():
		l.inDoubt, l.why = true, problem.Error()
		if l.repeatable {
			return false
		}
		l.settled <- settlement{err: failure(true, l.why, problem.ID, nil)}
	case refusedForNow(problem.Status):
		l.why = problem.Error()
		return false
	default:
		l.settled <- settlement{err: &problem}
	}
	return true
}
