package duetime

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
)

// between passes requests on to the API, counts them, and may lose answers: cut > 0 says how many.
type between struct {
	listener net.Listener
	to       string
	lock     sync.Mutex
	cut      int
	requests []string
	links    []net.Conn
}

func apiURL(t *testing.T) string {
	url := os.Getenv("DUETIME_URL")
	if url == "" {
		t.Fatal("DUETIME_URL is to name an API")
	}
	return url
}

func newBetween(t *testing.T) *between {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &between{listener: listener, to: strings.TrimPrefix(apiURL(t), "http://")}
	t.Cleanup(func() { listener.Close(); b.endAll() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go b.passOn(client)
		}
	}()
	return b
}

func (b *between) url() string { return "http://" + b.listener.Addr().String() }

// endAll ends every connection.
func (b *between) endAll() {
	b.lock.Lock()
	defer b.lock.Unlock()
	for _, link := range b.links {
		link.Close()
	}
	b.links = nil
}

func (b *between) passOn(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", b.to)
	if err != nil {
		return
	}
	defer server.Close()
	b.lock.Lock()
	b.links = append(b.links, client, server)
	b.lock.Unlock()
	asked, told := bufio.NewReader(client), bufio.NewReader(server)
	for b.one(asked, told, client, server) {
	}
}

func (b *between) one(asked, told *bufio.Reader, client, server net.Conn) bool {
	request, err := http.ReadRequest(asked)
	if err != nil {
		return false
	}
	body, _ := io.ReadAll(request.Body)
	request.Body = io.NopCloser(strings.NewReader(string(body)))
	b.lock.Lock()
	b.requests = append(b.requests, string(body))
	b.lock.Unlock()
	if request.Write(server) != nil {
		return false
	}
	reply, err := http.ReadResponse(told, request)
	if err != nil {
		return false
	}
	b.lock.Lock()
	lost := b.cut > 0
	if lost {
		b.cut--
	}
	b.lock.Unlock()
	return !lost && reply.Write(client) == nil
}

func (b *between) lose(answers int) {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.cut = answers
}

func (b *between) asked() []string {
	b.lock.Lock()
	defer b.lock.Unlock()
	return append([]string(nil), b.requests...)
}

// teller answers as it was told, the last way for ever; while hold is locked it does not answer.
type teller struct {
	*httptest.Server
	hold   sync.Mutex
	lock   sync.Mutex
	bodies []string
}

type saying struct {
	status     int
	retryAfter string
	body       func(asked string) string
}

func newTeller(t *testing.T, sayings ...saying) *teller {
	made := &teller{}
	made.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		made.lock.Lock()
		made.bodies = append(made.bodies, string(body))
		now := sayings[0]
		if len(sayings) > 1 {
			sayings = sayings[1:]
		}
		made.lock.Unlock()
		made.hold.Lock()
		defer made.hold.Unlock()
		if now.retryAfter != "" {
			w.Header().Set("Retry-After", now.retryAfter)
		}
		w.WriteHeader(now.status)
		_, _ = io.WriteString(w, now.body(string(body)))
	}))
	t.Cleanup(made.Close)
	return made
}

func (t *teller) asked() []string {
	t.lock.Lock()
	defer t.lock.Unlock()
	return append([]string(nil), t.bodies...)
}
