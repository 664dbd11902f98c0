module entrepot/clients

go 1.19

require (
	github.com/pkg/sftp v1.13.7
	golang.org/x/crypto v0.23.0
)

require (
	github.com/kr/fs v0.1.0 // indirect
	golang.org/x/sys v0.20.0 // indirect
)
