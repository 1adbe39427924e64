// A go-redis client that a test drives: one JSON request per line on standard input, one JSON
// answer per line on standard output. The requests are those of ../node/client.js.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"github.com/redis/go-redis/v9"
)

type request struct {
	Do        string
	ID        int
	Port      int
	Password  string
	Arguments []string
	Commands  [][]string
}

type answer struct {
	ID    *int        `json:"id,omitempty"`
	Value interface{} `json:"value"`
	Error string      `json:"error,omitempty"`
}

// Beside the address and the password everything is as go-redis has it by default.
func connect(r request) (*redis.Client, error) {
	client := redis.NewClient(&redis.Options{
		Addr:     fmt.Sprintf("127.0.0.1:%d", r.Port),
		Password: r.Password,
	})
	return client, client.Ping(context.Background()).Err()
}

func words(arguments []string) []interface{} {
	list := make([]interface{}, len(arguments))
	for i, word := range arguments {
		list[i] = word
	}
	return list
}

func pipeline(pipe redis.Pipeliner, commands [][]string) (interface{}, error) {
	replies := make([]*redis.Cmd, len(commands))
	for i, arguments := range commands {
		replies[i] = pipe.Do(context.Background(), words(arguments)...)
	}
	if _, err := pipe.Exec(context.Background()); err != nil {
		return nil, err
	}
	values := make([]interface{}, len(replies))
	for i, reply := range replies {
		values[i] = plain(reply.Val())
	}
	return values, nil
}

// plain makes of a RESP3 map something that JSON can say.
func plain(value interface{}) interface{} {
	switch value := value.(type) {
	case map[interface{}]interface{}:
		named := map[string]interface{}{}
		for name, inner := range value {
			named[fmt.Sprint(name)] = plain(inner)
		}
		return named
	case []interface{}:
		for i := range value {
			value[i] = plain(value[i])
		}
	}
	return value
}

func handle(client **redis.Client, r request) (value interface{}, err error) {
	switch r.Do {
	case "connect":
		*client, err = connect(r)
		return "OK", err
	case "command":
		value, err = (*client).Do(context.Background(), words(r.Arguments)...).Result()
		return plain(value), err
	case "transaction":
		return pipeline((*client).TxPipeline(), r.Commands)
	default:
		return pipeline((*client).Pipeline(), r.Commands)
	}
}

var output sync.Mutex // answers of waits come in between

func say(a answer) {
	text, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	output.Lock()
	defer output.Unlock()
	fmt.Println(string(text))
}

// wait asks over a connection of its own, without the timeout of 3 s that go-redis has by default.
func wait(r request) {
	client := redis.NewClient(&redis.Options{
		Addr:        fmt.Sprintf("127.0.0.1:%d", r.Port),
		ReadTimeout: -1,
	})
	value, err := client.Do(context.Background(), words(r.Arguments)...).Result()
	a := answer{ID: &r.ID, Value: plain(value)}
	if err != nil {
		a.Error = err.Error()
	}
	say(a)
}

func main() {
	var client *redis.Client
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r request
		var a answer
		err := json.Unmarshal(lines.Bytes(), &r)
		if err == nil && r.Do == "wait" {
			go wait(r)
			continue
		}
		if err == nil {
			a.Value, err = handle(&client, r)
		}
		if err != nil {
			a = answer{Error: err.Error()}
		}
		say(a)
	}
}
