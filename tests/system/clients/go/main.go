package main

import "github.com/redis/go-redis/v9"

func main() { _ = redis.NewClient }
