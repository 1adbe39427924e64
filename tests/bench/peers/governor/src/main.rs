// SPDX-License-Identifier: MIT
//
// governor, measured as tests/bench/bench.h says: a round at every line of standard input.
//
//     governor-bench direct         one limiter, check()
//     governor-bench keyed [KEYS]   keyed over a DashMap, check_key(), strings of 16 bytes
use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota, RateLimiter};
use std::hint::black_box;
use std::io::BufRead;
use std::num::NonZeroU32;

extern "C" {
    fn clock_gettime(clock: i32, time: *mut [i64; 2]) -> i32;
}

/// Processor time of this thread, as cpu_ns() of bench.h.
fn cpu_ns() -> u64 {
    const THREAD_CPUTIME: i32 = 3;
    let mut time = [0i64; 2];
    unsafe { clock_gettime(THREAD_CPUTIME, &mut time) };
    time[0] as u64 * 1_000_000_000 + time[1] as u64
}

/// 16 bytes of text, as a caller has them: governor owns a String per key. `key` is reused, so that
/// asking allocates nothing.
fn write_key(key: &mut String, index: u64) {
    let mut digits = *b"0000000000000000";
    let mut rest = index.wrapping_mul(0x9e3779b97f4a7c15);
    for digit in &mut digits {
        *digit = b'a' + (rest & 15) as u8;
        rest >>= 4;
    }
    key.clear();
    key.push_str(std::str::from_utf8(&digits).unwrap());
}

fn random_below(state: &mut u64, bound: u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    let random = state.wrapping_mul(2685821657736338717);
    ((random as u128 * bound as u128) >> 64) as u64
}

fn number(value: u32) -> NonZeroU32 {
    NonZeroU32::new(value).unwrap()
}

fn ns_per(start: u64, count: u64) -> f64 {
    (cpu_ns() - start) as f64 / count as f64
}

fn each_round(mut measure: impl FnMut()) {
    for line in std::io::stdin().lock().lines() {
        if line.is_err() {
            return;
        }
        measure();
    }
}

fn measure_direct() {
    let count = 4_000_000;
    let wide: DefaultDirectRateLimiter = RateLimiter::direct(Quota::per_second(number(1_000_000_000)));
    each_round(|| {
        let start = cpu_ns();
        for _ in 0..count {
            black_box(wide.check().is_ok());
        }
        println!("{{\"governor_direct\": {:.4}}}", ns_per(start, count));
    });
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

fn measure_keyed(keys: u64) {
    let count = 1 << 20;
    let before = resident_bytes();
    let quota = Quota::per_hour(number(1000)).allow_burst(number(1_000_000));
    let limiter: DefaultKeyedRateLimiter<String> = RateLimiter::keyed(quota);
    let mut key = String::with_capacity(16);
    for index in 0..keys {
        write_key(&mut key, index);
        black_box(limiter.check_key(&key).is_ok());
    }
    let bytes = (resident_bytes() - before) as f64 / keys as f64;
    each_round(|| {
        let mut random = 84;
        let start = cpu_ns();
        for _ in 0..count {
            write_key(&mut key, random_below(&mut random, keys));
            black_box(limiter.check_key(&key).is_ok());
        }
        println!(
            "{{\"governor_keyed\": {:.4}, \"governor_bytes_per_key\": {:.1}}}",
            ns_per(start, count),
            bytes
        );
    });
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let keys = arguments.get(2).map_or(10_000_000, |text| text.parse().unwrap());
    match arguments.get(1).map(String::as_str) {
        Some("keyed") => measure_keyed(keys),
        _ => measure_direct(),
    }
}
