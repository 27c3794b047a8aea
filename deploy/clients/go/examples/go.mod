module duetime/examples

go 1.19

require (
	duetime/client v0.0.0
	github.com/twmb/franz-go v1.16.1
)

require (
	github.com/klauspost/compress v1.17.4 // indirect
	github.com/pierrec/lz4/v4 v4.1.19 // indirect
	github.com/twmb/franz-go/pkg/kmsg v1.7.0 // indirect
)

replace duetime/client => ../
