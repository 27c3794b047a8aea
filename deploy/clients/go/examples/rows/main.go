// Does what it is told, a call a line, and says what came of it: the table of tests that all clients have in common.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"math/big"
	"os"
	"strconv"
	"time"

	duetime "duetime/client"
)

type asked struct{ Call, Topic, Key, ID string }

var (
	lines  = bufio.NewScanner(os.Stdin)
	client *duetime.Client
	kinds  = []struct {
		name string
		kind error
	}{{"KeyConflict", duetime.ErrKeyConflict}, {"TooLate", duetime.ErrTooLate}, {"Conflict", duetime.ErrConflict}, {"VersionMismatch", duetime.ErrVersionMismatch},
		{"Invalid", duetime.ErrInvalid}, {"Unauthorized", duetime.ErrUnauthorized}, {"Forbidden", duetime.ErrForbidden}, {"NotFound", duetime.ErrNotFound},
		{"Unavailable", duetime.ErrUnavailable}, {"OutcomeUnknown", duetime.ErrOutcomeUnknown}}
)

func main() {
	timeout, _ := strconv.Atoi(os.Getenv("DUETIME_TIMEOUT"))
	_, makeKeys := os.LookupEnv("DUETIME_MAKE_KEYS")
	var err error
	client, err = duetime.New(os.Getenv("DUETIME_URL"), duetime.Options{Token: os.Getenv("DUETIME_TOKEN"), CAFile: os.Getenv("DUETIME_CA_FILE"),
		Timeout: time.Duration(timeout) * time.Millisecond, MakeKeys: makeKeys})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for lines.Scan() {
		var next asked
		if err := json.Unmarshal(lines.Bytes(), &next); err != nil {
			log.Fatal(err)
		}
		told, err := do(next)
		if err != nil {
			told = map[string]any{"error": kindOf(err)}
		}
		text, _ := json.Marshal(told)
		fmt.Println(string(text))
	}
}

func kindOf(err error) string {
	for _, one := range kinds {
		if errors.Is(err, one.kind) {
			return one.name
		}
	}
	var problem *duetime.Problem
	if errors.As(err, &problem) {
		return "Problem"
	}
	return err.Error()
}

func do(next asked) (any, error) {
	ctx := context.Background()
	switch next.Call {
	case "create":
		created, err := client.Create(ctx, duetime.NewJob{Topic: next.Topic, Key: next.Key, Delay: time.Hour})
		return map[string]any{"id": created.ID}, err
	case "get":
		job, err := client.Get(ctx, next.ID)
		return map[string]any{"id": job.ID}, err
	case "report":
		outcome, err := client.Report(ctx, duetime.Report{JobID: next.ID, Attempt: 1, Status: duetime.Succeeded})
		return map[string]any{"outcome": outcome}, err
	case "give_up":
		return giveUp(ctx, next.Topic)
	case "big":
		return large(ctx, next.Topic)
	}
	return nil, fmt.Errorf("there is no call %s", next.Call)
}

func giveUp(ctx context.Context, topic string) (any, error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error)
	go func() {
		_, err := client.Pop(ctx, duetime.Pop{Topics: []string{topic}, Wait: 20 * time.Second})
		ended <- err
	}()
	lines.Scan()
	cancel()
	return map[string]any{"gave_up": errors.Is(<-ended, context.Canceled)}, nil
}

func large(ctx context.Context, topic string) (any, error) {
	beyond, _ := new(big.Int).SetString("18446744073709551617", 10)
	payload := []any{int64(1)<<53 + 1, int64(1<<63 - 1), int64(-1 << 63), beyond}
	created, err := client.Create(ctx, duetime.NewJob{Topic: topic, Payload: payload, Delay: time.Hour})
	if err != nil {
		return nil, err
	}
	job, err := client.Get(ctx, created.ID)
	if err != nil {
		return nil, err
	}
	var numbers []json.Number
	err = json.Unmarshal(job.Payload, &numbers)
	digits := make([]string, len(numbers))
	for i, number := range numbers {
		digits[i] = number.String()
	}
	return map[string]any{"id": created.ID, "digits": digits}, err
}
