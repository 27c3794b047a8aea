package duetime

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	kept         = 50 * time.Second // the server closes a connection that was silent for 75
	longestPause = 2 * time.Second
	firstPause   = 50 * time.Millisecond
)

type server struct {
	url, token string
	http       *http.Client
}

// A request; repeatable: once more does no harm. lines, or body as JSON.
type request struct {
	method, path string
	lines        []byte
	body         any
	ifMatch      string
	repeatable   bool
}

type answer struct {
	status     int
	retryAfter time.Duration // -1: the server names none
	body       []byte
}

// notNow is a refusal for the moment, or no answer at all. doubted: it may have been carried out.
type notNow struct {
	why        string
	doubted    bool
	retryAfter time.Duration
}

func (n *notNow) Error() string { return n.why }

func newServer(base *url.URL, address string, options Options) (server, error) {
	transport := options.Transport
	if transport == nil {
		own, err := ownTransport(base, options.CAFile)
		if err != nil {
			return server{}, err
		}
		transport = own
	}
	if base.Scheme == "unix" {
		address = "http://localhost"
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return server{url: address, token: options.Token, http: &http.Client{Transport: transport, CheckRedirect: stay}}, nil
}

func ownTransport(base *url.URL, caFile string) (*http.Transport, error) {
	own := http.DefaultTransport.(*http.Transport).Clone()
	own.MaxIdleConnsPerHost, own.IdleConnTimeout = 100, kept
	if base.Scheme == "unix" {
		own.Proxy = nil
		own.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", base.Path)
		}
	}
	if caFile == "" {
		return own, nil
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("duetime: %s holds no certificates", caFile)
	}
	own.TLSClientConfig = &tls.Config{RootCAs: authorities}
	return own, nil
}

// ask makes one request. Without a whole answer the error is a *notNow, which is doubted once the request was on its way.
func (s *server) ask(ctx context.Context, asked request) (answer, error) {
	var onItsWay atomic.Bool // the transport tells of it in a goroutine of its own, which may outlive the request
	trace := &httptrace.ClientTrace{WroteHeaders: func() { onItsWay.Store(true) }}
	made, err := s.made(httptrace.WithClientTrace(ctx, trace), asked)
	if err != nil {
		return answer{}, err
	}
	reply, err := s.http.Do(made)
	if err != nil {
		return answer{}, &notNow{why: err.Error(), doubted: onItsWay.Load(), retryAfter: -1}
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		return answer{}, &notNow{why: err.Error(), doubted: true, retryAfter: -1}
	}
	return answer{status: reply.StatusCode, retryAfter: seconds(reply.Header.Get("Retry-After")), body: body}, nil
}

func (s *server) made(ctx context.Context, asked request) (*http.Request, error) {
	data, kind := asked.lines, "application/x-ndjson"
	if asked.body != nil {
		var err error
		if data, err = json.Marshal(asked.body); err != nil {
			return nil, err
		}
		kind = "application/json"
	}
	made, err := http.NewRequestWithContext(ctx, asked.method, s.url+asked.path, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	made.Header.Set("User-Agent", "duetime-go/0.1.0")
	if len(data) > 0 {
		made.Header.Set("Content-Type", kind)
	}
	if s.token != "" {
		made.Header.Set("Authorization", "Bearer "+s.token)
	}
	if asked.ifMatch != "" {
		made.Header.Set("If-Match", asked.ifMatch)
	}
	return made, nil
}

// problem is what the answer says, also when something between us and the server answered in its own words.
func (a answer) problem() Problem {
	var problem Problem
	_ = json.Unmarshal(a.body, &problem) // what it does not have stays empty
	problem.Status = a.status
	if problem.Title == "" {
		problem.Title = http.StatusText(a.status)
	}
	return problem
}

// decode gives the answer, a *Problem, or a *notNow.
func (a answer) decode(into any) error {
	if a.status < 300 {
		if into == nil {
			return nil
		}
		return json.Unmarshal(a.body, into)
	}
	problem := a.problem()
	if problem.doubted() || refusedForNow(a.status) {
		return &notNow{why: problem.Error(), doubted: problem.doubted(), retryAfter: a.retryAfter}
	}
	return &problem
}

func refusedForNow(status int) bool { return status == 408 || status == 429 || status == 503 }

// doubted: it may have been carried out. A proxy that says 502 or 504 has lost the server's answer.
func (p *Problem) doubted() bool {
	return p.Code() == "outcome-unknown" || p.Status == 502 || p.Status == 504
}

// seconds of Retry-After; a date is not understood and left to our own pauses.
func seconds(text string) time.Duration {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return -1
	}
	return time.Duration(n) * time.Second
}

// duration of hours, minutes and seconds, as the server writes pauses: "PT1M0.5S". -1: none.
func duration(text string) time.Duration {
	given, err := time.ParseDuration(strings.ToLower(strings.TrimPrefix(text, "PT")))
	if err != nil {
		return -1
	}
	return given
}

// pauseOf grows from try to try and is not the same for all callers; it is as long as the server asks for at least.
func pauseOf(retryAfter time.Duration, tries int) time.Duration {
	pause := longestPause
	if tries < 6 {
		pause = firstPause << tries
	}
	pause = pause/2 + time.Duration(rand.Int63n(int64(pause/2)))
	if retryAfter > pause {
		return retryAfter
	}
	return pause
}

// sleep is false when the context ends first, or would.
func sleep(ctx context.Context, pause time.Duration) bool {
	if deadline, there := ctx.Deadline(); there && time.Until(deadline) <= pause {
		return false
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
