package duetime

import (
	"encoding/json"
	"time"
)

// A NewJob is what Create asks for. A job is due at RunAt or, where that is zero, after Delay, which may be 0. Payload is anything that
// encoding/json takes (json.RawMessage goes as it is); PayloadBytes with ContentType carry what is no JSON.
type NewJob struct {
	Topic        string
	Key          string // names one job within the topic, and makes a create repeatable
	Delay        time.Duration
	RunAt        time.Time
	Payload      any
	PayloadBytes []byte
	ContentType  string
	PartitionKey string
	Retry        []time.Duration // nil: the topic's
	AckTimeout   time.Duration   // 0: the topic's
	Headers      map[string]string
	CallbackURL  string
}

type wireJob struct {
	Topic        string            `json:"topic,omitempty"`
	Key          string            `json:"key,omitempty"`
	Delay        *int64            `json:"delay,omitempty"`
	RunAt        *time.Time        `json:"run_at,omitempty"`
	Payload      any               `json:"payload,omitempty"`
	PayloadBytes []byte            `json:"payload_base64,omitempty"`
	ContentType  string            `json:"content_type,omitempty"`
	PartitionKey string            `json:"partition_key,omitempty"`
	Retry        []int64           `json:"retry,omitempty"`
	AckTimeout   *int64            `json:"ack_timeout,omitempty"`
	Headers      map[string]string `json:"headers,omitempty"`
	CallbackURL  string            `json:"callback_url,omitempty"`
}

// MarshalJSON writes the job as the server reads it.
func (j NewJob) MarshalJSON() ([]byte, error) {
	wire := wireJob{Topic: j.Topic, Key: j.Key, Payload: j.Payload, PayloadBytes: j.PayloadBytes, ContentType: j.ContentType,
		PartitionKey: j.PartitionKey, Retry: inMilliseconds(j.Retry), Headers: j.Headers, CallbackURL: j.CallbackURL}
	if j.RunAt.IsZero() {
		wire.Delay = milliseconds(&j.Delay)
	} else {
		wire.RunAt = &j.RunAt
	}
	if j.AckTimeout > 0 {
		wire.AckTimeout = milliseconds(&j.AckTimeout)
	}
	return json.Marshal(wire)
}

// A Change replaces members of a job that is scheduled; nil leaves a member as it is.
type Change struct {
	Delay        *time.Duration
	RunAt        *time.Time
	Payload      any // json.RawMessage("null") for none
	PartitionKey string
	Retry        []time.Duration
	AckTimeout   *time.Duration
	Headers      map[string]string
	IfMatch      int // only if this is the job's version; 0: whatever it is
}

// MarshalJSON writes the change as the server reads it.
func (c Change) MarshalJSON() ([]byte, error) {
	return json.Marshal(wireJob{Delay: milliseconds(c.Delay), RunAt: c.RunAt, Payload: c.Payload, PartitionKey: c.PartitionKey,
		Retry: inMilliseconds(c.Retry), AckTimeout: milliseconds(c.AckTimeout), Headers: c.Headers})
}

// Created is the answer to Create.
type Created struct {
	ID      string
	Existed bool // an equal request had made the job before
}

// A Job is what the server tells of one.
type Job struct {
	ID           string            `json:"id"`
	Topic        string            `json:"topic"`
	Key          string            `json:"key"`
	State        string            `json:"state"`
	RunAt        time.Time         `json:"run_at"`
	NextAt       time.Time         `json:"next_at"`
	Attempt      int               `json:"attempt"`
	MaxAttempts  int               `json:"max_attempts"`
	Failures     int               `json:"failures"`
	Retry        []string          `json:"retry"`
	AckTimeout   string            `json:"ack_timeout"`
	PartitionKey string            `json:"partition_key"`
	Headers      map[string]string `json:"headers"`
	Payload      json.RawMessage   `json:"payload"`
	PayloadBytes []byte            `json:"payload_base64"`
	ContentType  string            `json:"content_type"`
	WaitingFor   string            `json:"waiting_for"`
	LastError    *AttemptError     `json:"last_error"`
	CreatedAt    time.Time         `json:"created_at"`
	UpdatedAt    time.Time         `json:"updated_at"`
	Version      int               `json:"version"`
	Deadline     time.Time         `json:"deadline"` // of an attempt that was popped
}

// An Attempt is one dispatch of a job.
type Attempt struct {
	Attempt      int           `json:"attempt"`
	Status       string        `json:"status"`
	DispatchedAt time.Time     `json:"dispatched_at"`
	FinishedAt   time.Time     `json:"finished_at"`
	LatenessMs   int64         `json:"lateness_ms"`
	Error        *AttemptError `json:"error"`
}

// An AttemptError is why an attempt failed.
type AttemptError struct {
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

// Statuses of a Report.
const (
	Succeeded = "succeeded"
	Failed    = "failed"
	Snoozed   = "snoozed"  // again after RetryAfter, without spending a failure
	GaveUp    = "gave_up"  // no attempt can succeed
	Extended  = "extended" // the acknowledgement deadline starts anew
)

// A Report is the result of an attempt.
type Report struct {
	JobID      string
	Attempt    int
	Status     string
	Error      *AttemptError
	RetryAfter time.Duration // 0: by the job's schedule
}

// MarshalJSON writes the report as the server reads it, by REST and in the results topic.
func (r Report) MarshalJSON() ([]byte, error) {
	wire := struct {
		JobID      string        `json:"job_id"`
		Attempt    int           `json:"attempt"`
		Status     string        `json:"status"`
		Error      *AttemptError `json:"error,omitempty"`
		RetryAfter *int64        `json:"retry_after,omitempty"`
	}{JobID: r.JobID, Attempt: r.Attempt, Status: r.Status, Error: r.Error}
	if r.RetryAfter > 0 {
		wire.RetryAfter = milliseconds(&r.RetryAfter)
	}
	return json.Marshal(wire)
}

// A Pop asks for due jobs of pull topics.
type Pop struct {
	Topics []string
	Max    int           // 0: one
	Wait   time.Duration // how long the server waits until there is one, at most a minute
	TTR    time.Duration // time for each attempt; 0: the job's own
}

// MarshalJSON writes the pop as the server reads it.
func (p Pop) MarshalJSON() ([]byte, error) {
	wire := map[string]any{"topics": p.Topics, "wait": *milliseconds(&p.Wait)}
	if p.Max > 0 {
		wire["max"] = p.Max
	}
	if p.TTR > 0 {
		wire["ttr"] = *milliseconds(&p.TTR)
	}
	return json.Marshal(wire)
}

// milliseconds rounds up, as the server does.
func milliseconds(duration *time.Duration) *int64 {
	if duration == nil {
		return nil
	}
	ms := int64((*duration + time.Millisecond - 1) / time.Millisecond)
	return &ms
}

func inMilliseconds(durations []time.Duration) []int64 {
	var all []int64
	for i := range durations {
		all = append(all, *milliseconds(&durations[i]))
	}
	return all
}
