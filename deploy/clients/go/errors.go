package duetime

import (
	"errors"
	"fmt"
	"strings"
)

// Kinds of errors, for errors.Is. The first two are a *Failure, the others a *Problem, which errors.As gives with all that the server said.
var (
	ErrUnavailable     = errors.New("unavailable")      // nothing happened before the deadline
	ErrOutcomeUnknown  = errors.New("outcome unknown")  // it may have happened
	ErrInvalid         = errors.New("invalid")          // 400, 413, 415, 422
	ErrUnauthorized    = errors.New("unauthorized")     // no token, or an unknown one
	ErrForbidden       = errors.New("forbidden")        // a scope is missing
	ErrNotFound        = errors.New("not found")        // no such job or topic, or none that the token reaches
	ErrConflict        = errors.New("conflict")         // any 409
	ErrKeyConflict     = errors.New("key conflict")     // an unlike request made the job that has this key: Problem.ID
	ErrTooLate         = errors.New("too late")         // the job is not scheduled any more: Problem.State, Problem.Attempt
	ErrVersionMismatch = errors.New("version mismatch") // the job has changed since IfMatch
)

// A Failure is a call without an answer: ErrUnavailable or ErrOutcomeUnknown.
type Failure struct {
	Kind  error
	Why   string
	ID    string // of the job that may have been made, where the server gave one
	Cause error  // the context's error, when that ended the call
}

func (f *Failure) Error() string        { return "duetime: " + f.Kind.Error() + ": " + f.Why }
func (f *Failure) Unwrap() error        { return f.Cause }
func (f *Failure) Is(target error) bool { return target == f.Kind }

// A Problem is what the server refused for good (RFC 9457).
type Problem struct {
	Type      string        `json:"type"`
	Title     string        `json:"title"`
	Status    int           `json:"status"`
	Detail    string        `json:"detail"`
	RequestID string        `json:"request_id"`
	Errors    []MemberError `json:"errors"`
	ID        string        `json:"id"`
	State     string        `json:"state"`
	Attempt   int           `json:"attempt"`
	Version   int           `json:"version"`

	RetryAfter string `json:"retry_after"` // of a quota that is used up: a duration
}

// A MemberError says which member of a request is wrong, and why.
type MemberError struct {
	Pointer string `json:"pointer"`
	Reason  string `json:"reason"`
}

// Code is the last part of the problem's type: "too-late".
func (p *Problem) Code() string { return p.Type[strings.LastIndexByte(p.Type, '/')+1:] }

func (p *Problem) Error() string {
	text := p.Detail
	if text == "" {
		text = p.Title
	}
	for _, member := range p.Errors {
		text += fmt.Sprintf("; %s: %s", member.Pointer, member.Reason)
	}
	return fmt.Sprintf("duetime: %d %s: %s", p.Status, p.Code(), text)
}

// Is tells the kinds apart.
func (p *Problem) Is(target error) bool {
	switch target {
	case ErrInvalid:
		return p.Status == 400 || p.Status == 413 || p.Status == 415 || p.Status == 422
	case ErrUnauthorized:
		return p.Status == 401
	case ErrForbidden:
		return p.Status == 403
	case ErrNotFound:
		return p.Status == 404
	case ErrConflict:
		return p.Status == 409
	case ErrKeyConflict:
		return p.Code() == "key-conflict"
	case ErrTooLate:
		return p.Code() == "too-late"
	case ErrVersionMismatch:
		return p.Status == 412
	}
	return false
}
