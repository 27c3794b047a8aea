// Makes jobs: create TOPIC FIRST COUNT. They are asked for from 64 goroutines, leave in a few requests, and each has its own answer. The key
// makes it safe to ask again: the second run gives the same ids. Some are made to fail a time or two, some are impossible.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync"
	"time"

	duetime "duetime/client"
	"duetime/examples/orders"
)

func order(topic string, n int) duetime.NewJob {
	payload := orders.Order{N: n, Impossible: n%100 == 9}
	if n%10 == 3 {
		payload.Fails = 1
	}
	if n%50 == 7 {
		payload.Fails = 2
	}
	second := time.Second
	return duetime.NewJob{Topic: topic, Key: fmt.Sprintf("order-%d", n), Payload: payload, Delay: time.Duration(n%100) * 10 * time.Millisecond,
		Retry: []time.Duration{second, second, second, second, second}}
}

func main() {
	if len(os.Args) != 4 {
		log.Fatal("create TOPIC FIRST COUNT")
	}
	first, _ := strconv.Atoi(os.Args[2])
	count, _ := strconv.Atoi(os.Args[3])
	client, err := duetime.New(os.Getenv("DUETIME_URL"), duetime.Options{Token: os.Getenv("DUETIME_TOKEN"), CAFile: os.Getenv("DUETIME_CA_FILE")})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ids, next := make([]string, count), make(chan int)
	var callers sync.WaitGroup
	for i := 0; i < 64; i++ {
		callers.Add(1)
		go func() {
			defer callers.Done()
			for i := range next {
				created, err := client.Create(context.Background(), order(os.Args[1], first+i))
				if err != nil {
					log.Fatal(err)
				}
				ids[i] = created.ID
			}
		}()
	}
	for i := 0; i < count; i++ {
		next <- i
	}
	close(next)
	callers.Wait()
	for _, id := range ids {
		fmt.Println(id)
	}
}
