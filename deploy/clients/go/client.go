// Package duetime is a client of duetime: jobs that are due later.
//
// Creates and reports of all goroutines that wait at the same time leave as one batch over a few kept connections, each caller awaiting its
// own answer; everything else is a request of its own. Every call ends with its context, or after Options.Timeout.
package duetime

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Options of a client; the zero value of each is its default.
type Options struct {
	Token        string        // a bearer token
	Timeout      time.Duration // of calls whose context has no deadline: 30 s
	Connections  int           // batches of one kind that are under way at a time: 2
	Linger       time.Duration // for which a create or report waits for company: 0
	BatchLines   int           // of one request: 1,000
	BatchBytes   int           // 1 MiB
	WaitingLines int           // beyond it callers wait for room: 10,000
	WaitingBytes int           // 64 MiB
	MakeKeys     bool          // creates without a key get one, so that each may be sent again
	CAFile       string        // for https with an authority of your own: the file (PEM) with its certificate
	Transport    http.RoundTripper
}

// A Client is for any number of goroutines.
type Client struct {
	server           server
	timeout          time.Duration
	creates, reports *coalescer
	keys             string
	made             atomic.Int64
}

// New makes a client of the API at address: https://HOST, http://HOST, or unix:/PATH of its socket.
func New(address string, options Options) (*Client, error) {
	base, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	socket := base.Scheme == "unix" && base.Path != ""
	if !socket && (base.Host == "" || (base.Scheme != "http" && base.Scheme != "https")) {
		return nil, fmt.Errorf("duetime: %q is no http or https URL, and no Unix socket (unix:/PATH)", address)
	}
	defaults(&options)
	server, err := newServer(base, strings.TrimSuffix(address, "/"), options)
	if err != nil {
		return nil, err
	}
	client := &Client{server: server, timeout: options.Timeout}
	client.creates = newCoalescer(&client.server, "/v1/jobs:batch", options)
	client.reports = newCoalescer(&client.server, "/v1/results", options)
	if options.MakeKeys {
		client.keys = prefix()
	}
	return client, nil
}

func defaults(options *Options) {
	for _, one := range []struct {
		value *int
		by    int
	}{{&options.Connections, 2}, {&options.BatchLines, 1000}, {&options.BatchBytes, 1 << 20}, {&options.WaitingLines, 10_000},
		{&options.WaitingBytes, 64 << 20}} {
		if *one.value == 0 {
			*one.value = one.by
		}
	}
	if options.Timeout == 0 {
		options.Timeout = 30 * time.Second
	}
}

// prefix is of the client's own keys, which ascend: that is what the server's index of keys likes best.
func prefix() string {
	var random [4]byte
	_, _ = rand.Read(random[:]) // the time alone tells nearly all clients apart
	return fmt.Sprintf("%013d-%s-", time.Now().UnixMilli(), hex.EncodeToString(random[:]))
}

// Close ends the connections that are kept. Calls that are under way go on.
func (c *Client) Close() { c.server.http.CloseIdleConnections() }

// Create makes a job and returns when it is durable. With a key it is sent again when its outcome is unknown.
func (c *Client) Create(ctx context.Context, job NewJob) (Created, error) {
	if job.Key == "" && c.keys != "" {
		job.Key = fmt.Sprintf("%s%09d", c.keys, c.made.Add(1))
	}
	told, err := c.line(ctx, c.creates, job, job.Key != "")
	return Created{ID: told.ID, Existed: told.Status == http.StatusOK}, err
}

// Report reports the result of an attempt: "applied", "duplicate" or "stale".
func (c *Client) Report(ctx context.Context, report Report) (string, error) {
	told, err := c.line(ctx, c.reports, report, true)
	return told.Outcome, err
}

func (c *Client) line(ctx context.Context, to *coalescer, value any, repeatable bool) (told, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return told{}, err
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	return to.add(ctx, append(data, '\n'), repeatable)
}

// Get gives a job by its id.
func (c *Client) Get(ctx context.Context, id string) (job Job, err error) {
	err = c.ask(ctx, request{method: "GET", path: "/v1/jobs/" + url.PathEscape(id), repeatable: true}, &job)
	return job, err
}

// GetByKey gives the latest job of a key.
func (c *Client) GetByKey(ctx context.Context, topic, key string) (job Job, err error) {
	path := "/v1/topics/" + url.PathEscape(topic) + "/jobs/" + url.PathEscape(key)
	err = c.ask(ctx, request{method: "GET", path: path, repeatable: true}, &job)
	return job, err
}

// Attempts gives a job's dispatches, with what became of them.
func (c *Client) Attempts(ctx context.Context, id string) ([]Attempt, error) {
	var answer struct{ Attempts []Attempt }
	err := c.ask(ctx, request{method: "GET", path: "/v1/jobs/" + url.PathEscape(id) + "/attempts", repeatable: true}, &answer)
	return answer.Attempts, err
}

// Change changes a job that is scheduled. With IfMatch it is not sent again when its outcome is unknown: the version may be its own by then.
func (c *Client) Change(ctx context.Context, id string, change Change) (job Job, err error) {
	asked := request{method: "PATCH", path: "/v1/jobs/" + url.PathEscape(id), body: change, repeatable: change.IfMatch == 0}
	if change.IfMatch != 0 {
		asked.ifMatch = strconv.Quote(strconv.Itoa(change.IfMatch))
	}
	err = c.ask(ctx, asked, &job)
	return job, err
}

// Cancel cancels a job that is scheduled; once more gives the same answer.
func (c *Client) Cancel(ctx context.Context, id string) (job Job, err error) {
	err = c.ask(ctx, request{method: "POST", path: "/v1/jobs/" + url.PathEscape(id) + "/cancel", repeatable: true}, &job)
	return job, err
}

// CancelRetries keeps a job that is dispatched from further attempts.
func (c *Client) CancelRetries(ctx context.Context, id string) (job Job, err error) {
	err = c.ask(ctx, request{method: "POST", path: "/v1/jobs/" + url.PathEscape(id) + "/cancel?retries=true", repeatable: true}, &job)
	return job, err
}

// Pop claims due jobs. A pop whose answer is lost costs those attempts: they come again after their time.
func (c *Client) Pop(ctx context.Context, pop Pop) ([]Job, error) {
	if _, there := ctx.Deadline(); !there {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, pop.Wait+c.timeout)
		defer cancel()
	}
	var answer struct{ Jobs []Job }
	err := c.ask(ctx, request{method: "POST", path: "/v1/pop", body: pop}, &answer)
	return answer.Jobs, err
}

// PutTopic sets a topic, by the names of the REST API: "delivery", "retry", "rate_limit"; what is left out takes its default.
func (c *Client) PutTopic(ctx context.Context, topic string, settings map[string]any) error {
	return c.ask(ctx, request{method: "PUT", path: "/v1/topics/" + url.PathEscape(topic), body: settings, repeatable: true}, nil)
}

// ask carries a request out and decodes its answer. Refused for the moment: again. Outcome unknown: again if that does no harm.
func (c *Client) ask(ctx context.Context, asked request, into any) error {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	inDoubt := false
	for tries := 1; ; tries++ {
		answer, err := c.server.ask(ctx, asked)
		if err == nil {
			err = answer.decode(into)
		}
		again, ok := err.(*notNow)
		if !ok {
			return err
		}
		inDoubt = inDoubt || again.doubted
		pause := pauseOf(again.retryAfter, tries)
		if (again.doubted && !asked.repeatable) || !sleep(ctx, pause) {
			return failure(inDoubt, again.why, "", ctx.Err())
		}
	}
}

func (c *Client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, there := ctx.Deadline(); there {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.timeout)
}

func failure(inDoubt bool, why, id string, cause error) *Failure {
	kind := ErrUnavailable
	if inDoubt {
		kind = ErrOutcomeUnknown
	}
	return &Failure{Kind: kind, Why: why, ID: id, Cause: cause}
}
