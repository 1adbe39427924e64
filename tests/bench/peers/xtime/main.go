// SPDX-License-Identifier: MIT
//
// golang.org/x/time/rate, measured as tests/bench/bench.h says: a round at every line of input.
package main

import (
	"bufio"
	"fmt"
	"os"
	"time"

	"golang.org/x/time/rate"
)

func main() {
	const count = 2_000_000
	limiter := rate.NewLimiter(1e9, 1_000_000_000)
	allowed := 0
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		start := time.Now()
		for i := 0; i < count; i++ {
			if limiter.Allow() {
				allowed++
			}
		}
		fmt.Printf("{\"xtime_direct\": %.4f}\n", float64(time.Since(start).Nanoseconds())/count)
	}
	if allowed < 0 {
		os.Exit(1)
	}
}
