module duetime/client

go 1.19
