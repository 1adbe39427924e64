module weir.example/xtime-bench

go 1.19

require golang.org/x/time v0.9.0
